"""Tables and figures of the papers, with one module for each paper, and what goes beyond them."""

from penstock.experiments.albic import EXPERIMENTS as ALBIC
from penstock.experiments.autoscale import EXPERIMENTS as AUTOSCALE
from penstock.experiments.base import Experiment, Extra, Sample
from penstock.experiments.batch import EXPERIMENTS as BATCH
from penstock.experiments.batch_functions import EXPERIMENTS as BATCH_FUNCTIONS
from penstock.experiments.cg import EXPERIMENTS as CG
from penstock.experiments.cg_spark import EXPERIMENTS as CG_SPARK
from penstock.experiments.hostile import EXPERIMENTS as HOSTILE
from penstock.experiments.las import EXPERIMENTS as LAS
from penstock.experiments.las_spark import EXPERIMENTS as LAS_SPARK
from penstock.experiments.las_spark_figures import EXPERIMENTS as LAS_SPARK_FIGURES
from penstock.experiments.milp import EXPERIMENTS as MILP
from penstock.experiments.posg import EXPERIMENTS as POSG
from penstock.experiments.posg_spark import EXPERIMENTS as POSG_SPARK
from penstock.experiments.size import EXPERIMENTS as SIZE

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        *POSG,
        *POSG_SPARK,
        *CG,
        *CG_SPARK,
        *LAS,
        *LAS_SPARK_FIGURES,
        *LAS_SPARK,
        *AUTOSCALE,
        *MILP,
        *ALBIC,
        *BATCH,
        *SIZE,
        *BATCH_FUNCTIONS,
        *HOSTILE,
    )
}

__all__ = ["EXPERIMENTS", "Experiment", "Extra", "Sample"]
