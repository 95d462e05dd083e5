"""The documentation site: every page has its place, and every link leads somewhere."""

import importlib.util
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The script that builds the site, with all pages staged."""
    spec = importlib.util.spec_from_file_location("penstock_site", ROOT / "tools" / "site.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.STAGE = tmp_path_factory.mktemp("site")
    script.stage()
    return script


def test_links_and_pictures_lead_to_staged_files(site):
    dead = [
        f"{page.relative_to(site.STAGE)}: {target}"
        for page in site.STAGE.rglob("*.md")
        for target in re.findall(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)", page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert dead == []


def test_links_to_a_part_of_a_page_lead_to_a_heading(site):
    dead = [
        f"{page.relative_to(site.STAGE)}: {target}#{part}"
        for page in site.STAGE.rglob("*.md")
        for target, part in re.findall(r"\]\(([^)\s#:]*)#([^)\s]+)\)", page.read_text())
        if part not in anchors((page.parent / target if target else page).read_text())
    ]
    assert dead == []


def anchors(text):
    """The names of the headings of a page, as the site makes them."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ +(.+)$", text, re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", title.replace("`", "")).strip().lower() for title in titles]
    return {re.sub(r"[\s-]+", "-", title) for title in plain}


def test_the_menu_has_every_page_but_single_decisions(site):
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    listed = set(re.findall(r"[\w/-]+\.md", str(nav)))
    staged = {str(page.relative_to(site.STAGE)) for page in site.STAGE.rglob("*.md")}
    assert listed <= staged
    assert {page for page in staged - listed if "decisions/0" not in page} == set()


def test_the_gallery_has_every_stored_result(site):
    page = (site.STAGE / "gallery.md").read_text()
    stored = [file.stem for file in (ROOT / "docs" / "papers" / "results").glob("*.json")]
    assert stored
    assert [name for name in stored if f"| `{name}` |" not in page] == []


def test_links_are_followed_to_their_new_place(site):
    path = site.PurePosixPath
    assert site.relinked("[a](b.md#c)", path("docs/README.md")) == "[a](b.md#c)"
    assert site.relinked("![p](../pictures/p.png)", path("docs/guide/a.md")) == (
        "![p](../pictures/p.png)"
    )
    assert site.relinked("[r](https://a.example/b)", path("README.md")) == (
        "[r](https://a.example/b)"
    )
