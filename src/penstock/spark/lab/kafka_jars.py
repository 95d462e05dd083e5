"""Jars of Kafka: fetched once by Maven, pinned by checksums, kept in the user's cache folder."""

import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from penstock.errors import PenstockError
from penstock.spark.environment import java_version

_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
_FETCH_S = 600.0
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>penstock</groupId><artifactId>kafka-jars</artifactId><version>1</version>
<build><plugins><plugin>
<groupId>org.apache.maven.plugins</groupId><artifactId>maven-dependency-plugin</artifactId>
<configuration><artifactItems>
{items}
</artifactItems></configuration>
</plugin></plugins></build></project>
"""
_ITEM = (
    "<artifactItem><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
    "<version>{version}</version><outputDirectory>{folder}</outputDirectory></artifactItem>"
)


class KafkaUnavailableError(PenstockError):
    """Kafka cannot be had on this machine: Java, Maven or the network is missing."""


class Pin(NamedTuple):
    """A jar, and the checksum that it must have.

    Attributes:
        part: "broker", or "connector" for the jars that Spark needs.
        group: group of the artifact.
        artifact: name of the artifact.
        version: version of the artifact.
        sha256: checksum of the jar.
    """

    part: str
    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        """Path of the jar in the cache."""
        return f"{self.part}/{self.artifact}-{self.version}.jar"


def pins() -> list[Pin]:
    """Return all pinned jars.

    Example:
        >>> [f"{one.artifact}:{one.version}" for one in pins() if one.part == "connector"][1:3]
        ['kafka-clients:3.9.1', 'spark-sql-kafka-0-10_2.13:4.2.0']
    """
    text = (files("penstock.spark.lab") / "kafka_jars.txt").read_text()
    rows = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return [Pin._make([part, *name.split(":"), checksum]) for part, name, checksum in rows]


def cache_folder() -> Path:
    """Return the folder in which the jars are kept."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "penstock" / "kafka"


def broker_jars() -> list[Path]:
    """Return the jars of the broker; fetch them if they are missing."""
    return _jars("broker")


def connector_jars() -> list[Path]:
    """Return the jars of Spark's Kafka connector, for `spark.jars`; fetch them if missing."""
    return _jars("connector")


def _jars(part: str) -> list[Path]:
    folder = cache_folder()
    wanted = pins()
    try:
        java_version()
    except PenstockError as error:
        raise KafkaUnavailableError(f"no Kafka here: {error}") from None
    if any(not (folder / one.file).exists() for one in wanted):
        with _only_one(folder):
            missing = [one for one in wanted if not (folder / one.file).exists()]
            if missing:
                _fetch(missing, folder)
    mine = [one for one in wanted if one.part == part]
    for one in mine:
        _verify(folder / one.file, one.sha256)
    return [folder / one.file for one in mine]


def _verify(file: Path, sha256: str) -> None:
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    if found != sha256:
        raise PenstockError(
            f"{file} has checksum {found} instead of {sha256}; remove the file, it is then "
            "fetched again"
        )


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """Let one process at a time fetch."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(missing: list[Pin], folder: Path) -> None:
    """Fetch jars by Maven, and move those with the right checksums to the cache."""
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnavailableError(
            f"no Kafka here: its jars are not in {folder}, and Maven (mvn), which fetches them, "
            "is not on the PATH; install it (Debian and Ubuntu: maven)"
        )
    with tempfile.TemporaryDirectory(prefix="fetched-", dir=folder) as fetched:
        items = [
            _ITEM.format(
                group=one.group,
                artifact=one.artifact,
                version=one.version,
                folder=escape(str(Path(fetched) / one.part)),
            )
            for one in missing
        ]
        pom = Path(fetched) / "pom.xml"
        pom.write_text(_POM.format(items="\n".join(items)))
        _run(maven, pom)
        for one in missing:
            _verify(Path(fetched) / one.file, one.sha256)
            (folder / one.part).mkdir(exist_ok=True)
            (Path(fetched) / one.file).rename(folder / one.file)


def _run(maven: str, pom: Path) -> None:
    """Run Maven; its output goes to a file, as its children may hold a pipe open."""
    log = pom.with_name("maven.log")
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - the user's own Maven
            [maven, "--batch-mode", "--quiet", "--file", str(pom), _PLUGIN],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            code = process.wait(_FETCH_S)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
    if code:
        said = [line for line in log.read_text(errors="replace").splitlines() if "ERROR" in line]
        raise KafkaUnavailableError(
            f"no Kafka here: Maven cannot fetch its jars ({' '.join(said[:1]) or 'no message'}); "
            "look at the network, or at Maven's settings"
        )
