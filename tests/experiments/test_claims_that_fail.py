"""Claims that must fail: the worst of all values decides, not the best one or the mean."""

import pytest

from penstock.experiments import (
    albic_claims,
    autoscale,
    cg,
    cg_spark,
    las_claims,
    las_series_claims,
    las_spark_figures,
    milp_claims,
    posg_claims,
    posg_spark,
)
from penstock.experiments.results import Table


def table(*samples):
    return Table.of_samples("", samples)


def constant(values, xs=("whole",)):
    """Return a table in which each (series, metric) has one value, at every x."""
    return table(*((s, x, m, v) for (s, m), v in values.items() for x in xs))


def failing(claims, series=""):
    """Return the claims of a series that do not hold."""
    return [c.claim for c in claims if c.claim.startswith(series) and not c.holds]


def one(claims, text):
    """Return the only claim with a text in it."""
    (found,) = [claim for claim in claims if text in claim.claim]
    return found


def test_one_slow_point_of_a_figure_is_slower():
    samples = [("posg_as_published", x, "speedup", 2.0) for x in (8, 16)]
    samples += [("posg", 8, "speedup", 0.5), ("posg", 16, "speedup", 9.0)]
    claims = posg_claims.max_cost(table(*samples))
    assert failing(claims) == ["posg: smallest mean speed-up in this figure"]


def test_the_worst_stream_of_posg_is_compared_with_the_best_of_round_robin():
    xs = ("uniform", "zipf-0.5", "zipf-1.0", "zipf-1.5", "zipf-2.5")

    def claims(*streams):
        samples = [("round_robin", x, "completion_ms", 100.0) for x in xs]
        for series in ("posg_as_published", "posg", "full_knowledge"):
            samples += [(series, x, "speedup", 2.0) for x in xs]
            samples += [(series, x, "steady_completion_ms", 50.0) for x in xs]
            samples += [(series, x, "completion_ms", ms) for x in xs for ms in streams]
        return posg_claims.distributions(table(*samples))

    assert failing(claims(50.0, 99.0)) == []
    assert failing(claims(50.0, 101.0)) == [
        f"{series}: at Zipf-1.5 worst stream against best one of round robin"
        for series in ("posg_as_published", "posg")
    ]


def test_the_first_run_of_the_earliest_stream_decides():
    def claim(*records):
        samples = [("posg_as_published", "whole", "record_of_update", 80_000.0)]
        for series in ("posg_as_published", "posg"):
            samples += [(series, x, "speedup", 2.0) for x in range(2_000, 150_001, 2_000)]
            samples += [(series, "whole", "record_of_first_run", r) for r in records]
        claims = posg_claims.timeseries(table(*samples))
        return one(claims, "posg_as_published: record of the first RUN")

    assert claim(10_690.0, 30_000.0).holds
    late = claim(10_691.0, 10_692.0)
    assert not late.holds
    assert (late.paper, late.goal, late.ours) == (10_690, None, 10_691)


def las_table(published_ms, ours_ms):
    """Return Figure 4 at 10% and 50%, with these waiting times of both shedders."""
    samples = []
    for series in ("random_drop", "mean_cost"):
        samples += [(series, x, "queuing_ms", 50.0) for x in (0.1, 0.5)]
    given = {"las_as_published": published_ms, "las": ours_ms, "full_knowledge": (5.0, 5.0)}
    for series, times in given.items():
        samples += [(series, x, "queuing_ms", ms) for x, ms in zip((0.1, 0.5), times, strict=True)]
        samples += [(series, x, "dropped_ratio", 0.3) for x in (0.1, 0.5)]
    return table(*samples)


def test_the_longest_waiting_time_decides():
    name = ": largest mean waiting time from 10% to 90%, in ms"
    assert failing(las_claims.provisioning(las_table((6.4, 6.4), (6.4, 6.4)))) == []
    claims = las_claims.provisioning(las_table((6.4, 7.1), (7.1, 6.4)))
    assert failing(claims) == [
        "las_as_published" + name,
        "las" + name,
        "las: the same waiting time, our aim",
    ]


def test_a_record_more_than_full_knowledge_is_more():
    samples = []
    for series in ("random_drop", "mean_cost", "las_as_published", "las_cheap_first", "las"):
        samples += [(series, x, "queuing_ms", 6.4) for x in (-0.1, 0.5)]
        samples += [(series, x, "dropped_ratio", 0.00011) for x in (-0.1, 0.5)]
    samples += [("full_knowledge", x, "queuing_ms", 6.4) for x in (-0.1, 0.5)]
    samples += [("full_knowledge", x, "dropped_ratio", 0.00012) for x in (-0.1, 0.5)]
    text = "drops at -10% above those of Full Knowledge"
    assert all(c.holds for c in las_claims.provisioning(table(*samples)) if text in c.claim)
    turned = [(s, x, m, 0.00023 - v if m == "dropped_ratio" else v) for s, x, m, v in samples]
    found = [c for c in las_claims.provisioning(table(*turned)) if text in c.claim]
    assert [c.holds for c in found] == [False] * 3
    assert found[0].ours == pytest.approx(0.001)


def test_the_last_weeks_count_and_not_the_best_one():
    def claims(collocation, index):
        samples = []
        for week in range(1, 21):
            late = week > 10
            for job in "234":
                for series in ("cola", "albic_as_published", "albic"):
                    numbers = {"collocation": 60.0, "distance": 1.0, "migrations": 10.0}
                    numbers["load_index"] = 50.0
                    if series == "albic" and late:
                        numbers |= {"collocation": collocation, "load_index": index}
                    samples += [(series, week, f"{m}_{job}", v) for m, v in numbers.items()]
        return failing(albic_claims.airline(table(*samples)), "albic,")

    relative = [f"albic, job {j}: load index at the end over COLA's" for j in (3, 4)]
    assert claims(60.0, 49.0) == []
    assert claims(40.0, 49.0) == [
        f"albic, job {j}: collocation at the end over COLA's" for j in (2, 3, 4)
    ]
    found = claims(60.0, 90.0)
    assert [c for c in found if "in %" in c] == [
        f"albic, job {j}: load index at the end, in %" for j in (2, 3, 4)
    ]
    assert set(relative) <= set(found)


def test_more_sources_may_not_be_much_worse():
    def claims(imbalance, memory):
        samples = []
        for workers in (5, 10, 50, 100):
            for what, ratio in (("imbalance", imbalance), ("memory", memory)):
                for series in cg.claims.BOTH:
                    samples += [(series, 1, f"{what}_{workers}", 2.0)]
                    samples += [(series, 100, f"{what}_{workers}", 2.0 * ratio)]
        return failing(cg.claims.sources(table(*samples)))

    assert claims(3.0, 0.1) == []
    assert len(claims(3.1, 0.1)) == 8
    assert len(claims(0.1, 3.1)) == 8


def test_ten_virtual_workers_are_the_papers_and_twenty_are_ours():
    values = {("key_hash", "queue_spread"): 9.0}
    for series in ("cg_as_published", "cg", "cg_as_published_of_20", "cg_of_20"):
        values |= {(series, m): 5.0 for m in ("queue_at_end", "moves")}
        imbalance = 0.04 if series.endswith("20") else 0.15
        values[series, "late_imbalance"] = imbalance
    claims = cg.cluster_claims.homogeneous(constant(values, xs=("whole", 1, 2, 3)))
    assert failing(claims) == [
        "cg_as_published: imbalance in the second half, 10 virtual workers",
        "cg: imbalance in the second half, 10 virtual workers",
        "key_hash: queue at the end over that in the middle",
    ]
    assert all(c.paper is None for c in claims if "_of_20" in c.claim)


def test_one_run_above_one_point_is_not_consistently_below():
    samples = []
    for series in ("local_search", "flux", "pkg", "unrestricted", "local_search_of_10"):
        for period in (1, 2):
            samples += [(series, period, m, 0.5) for m in ("distance", "migrations", "pause_s")]
    samples += [("local_search", 1, "distance", 1.0)]
    claim, mean, *_ = milp_claims.wikipedia(table(*samples))
    assert mean.holds
    assert not claim.holds
    assert (claim.paper, claim.ours) == (1, 1.0)


def test_a_solver_that_is_worse_than_flux_once_is_named():
    samples = [
        (s, x, "distance_20", 1.0) for s in ("flux", "highs", "local_search") for x in (1, 2)
    ]
    claim = milp_claims._outperforms(table(*samples), "highs", 20, by="budget")
    assert claim.holds
    samples.append(("highs", 2, "distance_20", 1.1))
    claim = milp_claims._outperforms(table(*samples), "highs", 20, by="budget")
    assert not claim.holds
    assert claim.ours == "not with 2"


def scaled(**changed):
    """Return claims of Figure 12a in which all scalers are alike, but for some numbers."""
    values = {}
    for series in ("minimum", "expert", "threshold", "rate_based", *autoscale.claims.BOTH):
        values |= {(series, m): 1.0 for m in ("mean_latency_s", "instances_ratio")}
        values |= {(series, "timed_out"): 0.0, (series, "reconfigurations"): 2.0}
    values |= {("preventive", metric): value for metric, value in changed.items()}
    return failing(autoscale.claims.advertising_minimum(constant(values)), "preventive:")


def test_overhead_is_relative_to_the_minimum():
    assert scaled() == []
    assert scaled(instances_ratio=1.12, mean_latency_s=1.02) == []
    assert scaled(instances_ratio=1.13)[0].startswith("preventive: instances above")
    assert scaled(mean_latency_s=1.03)[0].startswith("preventive: mean latency relative")
    assert scaled(reconfigurations=0.0)[0].startswith("preventive: reconfigurations")


def test_fewer_instances_than_the_experts_in_percent():
    values = {(s, "mean_latency_s"): 1.0 for s in ("expert", "threshold", "rate_based")}
    values |= {(s, "instances_ratio"): 0.9 for s in ("expert", "threshold", "rate_based")}
    for series, ratio in (("preventive_as_published", 0.51), ("preventive", 0.5)):
        values |= {(series, "instances_ratio"): ratio, (series, "mean_latency_s"): 1.0}
        values[series, "timed_out"] = 0.0
    claims = autoscale.claims.advertising(constant(values))
    assert failing(claims) == ["preventive_as_published: instances less than the expert's, in %"]
    assert one(claims, "preventive: instances less").ours == 50


def test_figure_15_is_about_throughput_and_latency():
    samples = []
    for series in ("key_hash", "pkg", "round_robin", "cg_as_published", "cg", "cg_4_per_slot"):
        for x in cg_spark.SETTINGS:
            rate = 100.0 if series == "key_hash" else 250.0
            samples += [(series, x, "throughput_per_s", rate), (series, x, "memory", 1.0)]
            samples += [(series, x, "lost", 0.0)]
    claims = cg_spark.claims(table(*samples))
    assert {c.paper for c in claims if c.source == "Figure 15"} == {3.44, 2}
    assert [c.holds for c in claims if c.paper == 3.44] == [False] * 3
    assert [c.holds for c in claims if c.paper == 2] == [True] * 3


@pytest.mark.parametrize("lost", [1.0, -1.0])
def test_a_lost_record_and_one_that_is_processed_twice_are_counted(lost):
    whole = [("posg", 1, "lost", 0.0), ("repartition", 1, "lost", 0.0)]
    assert posg_spark.exactly_once(table(*whole)).holds
    claim = posg_spark.exactly_once(table(*whole, ("posg", 1, "lost", lost)))
    assert not claim.holds
    assert claim.ours == lost


def test_phase_f_is_reported_from_its_first_record_on():
    def claims(first, late):
        samples = []
        for end in range(4_000, 140_001, 4_000):
            for series in ("mean_cost", "las_as_published", "las", "full_knowledge"):
                ms = 64.0 if series != "mean_cost" else 640.0
                if 100_000 < end <= 120_000 and series == "las":
                    ms = first if end == 104_000 else late
                samples += [(series, end, "queuing_ms", ms), (series, end, "dropped_ratio", 0.0)]
        return failing(las_series_claims.timeseries(table(*samples)), "las,")

    assert claims(730.0, 64.0) == []
    assert claims(64.0, 64.0) == ["las, phase F (costs doubled): first 4,000 records, in ms"]
    assert claims(730.0, 81.0) == ["las, phase F: last 12,000 records, farthest from 64 ms"]


def test_live_claims_fail_if_las_is_far_from_full_knowledge():
    samples = []
    for second in range(4, 41, 4):
        for series, ms, dropped in (("mean_cost", 9_000, 0.0), ("las", 800, 0.07)):
            samples += [(series, float(second), "completion_ms", float(ms))]
            samples += [(series, float(second), "dropped_ratio", dropped)]
        samples += [("full_knowledge", float(second), "completion_ms", 700.0)]
        samples += [("full_knowledge", float(second), "dropped_ratio", 0.2)]
    samples += [(s, "whole", "lost", 0.0) for s in las_spark_figures.SERIES]
    assert failing(las_spark_figures.application_claims(table(*samples))) == [
        "las: completion time over that of Full Knowledge",
        "full_knowledge: mean share of dropped records",
    ]
