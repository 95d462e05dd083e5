"""Scalers: policies that decide on the number of instances of each operator."""

from penstock.policies.scaling.base import History, Observed, ScalePlan, Scaler, Topology
from penstock.policies.scaling.fixed import Fixed
from penstock.policies.scaling.forecasting import (
    DampedTrend,
    Forecaster,
    LastValue,
    LeastSquares,
)
from penstock.policies.scaling.preventive import Preventive
from penstock.policies.scaling.preventive_as_published import PreventiveAsPublished
from penstock.policies.scaling.rate_based import RateBased
from penstock.policies.scaling.threshold import Threshold

__all__ = [
    "DampedTrend",
    "Fixed",
    "Forecaster",
    "History",
    "LastValue",
    "LeastSquares",
    "Observed",
    "Preventive",
    "PreventiveAsPublished",
    "RateBased",
    "ScalePlan",
    "Scaler",
    "Threshold",
    "Topology",
]
