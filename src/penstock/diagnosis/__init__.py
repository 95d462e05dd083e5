"""Diagnosis of slow Spark jobs: event logs in, causes and cures out. No Spark is needed."""

from penstock.diagnosis.analysis import Diagnosis, QueryDiagnosis, Share, diagnose
from penstock.diagnosis.causes import Cause
from penstock.diagnosis.files import LogFiles, find_logs
from penstock.diagnosis.log import Log, read_log
from penstock.diagnosis.patient import Cure

__all__ = [
    "Cause",
    "Cure",
    "Diagnosis",
    "Log",
    "LogFiles",
    "QueryDiagnosis",
    "Share",
    "diagnose",
    "find_logs",
    "read_log",
]
