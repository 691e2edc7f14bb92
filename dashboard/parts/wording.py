"""What things are called on the pages: names of knobs, models, flags and reasons in plain words."""

from __future__ import annotations

from typing import Any

from shoal.errors import Remedy, RemedyKind, Standing, TrainingError
from shoal.settings.config import RunConfig
from shoal.words import MODELS, shortened

ROOM = 160  # letters of what a sentence says to fill in; hundreds of columns would be all that is seen
USUAL_CONFIG = RunConfig()  # made once: a form asks for defaults thousands of times, and making one checks every knob
ABOUT_MODELS = {
    "linear": "Least squares, no penalty. Gives standard errors and intervals for every coefficient.",
    "ridge": "Shrinks all coefficients a little. Steady when columns say nearly the same thing.",
    "lasso": "Shrinks coefficients, and sets those that matter little to exactly zero.",
    "elasticnet": "Between ridge and lasso: picks columns, but keeps groups of similar ones together.",
    "logistic": "Yes or no, or any two values: gives the probability of one, and odds ratios with intervals.",
    "multinomial": "For 3 to 50 classes, texts or numbers: the probability of each of them.",
    "poisson": "Counts of 0 or more: each column multiplies the expected count.",
    "auto": "Looks at the column to predict: yes or no, counts or numbers; and says why.",
    "gamma": "Positive, skewed numbers such as costs or times: each column multiplies the expected value.",
    "lognormal": "The same by least squares of their logarithms; predictions are means of the numbers themselves.",
    "huber": "Numbers with some far off: these pull by the size of their error only, not by its square.",
    "quantile": "A quantile, such as the median, in place of the mean: the line that has a given share of rows below.",
    "mlp": "A neural network for numbers or yes and no, where straight lines are not enough, beside the exact one.",
    "module": "A PyTorch module, trained from Python by shoal.train_module.",
}
LABELS = {
    "target": "Column to predict",
    "register": "Save as a version of the model",
    "model": "Model",
    "shrink": "Penalty",
    "positive": "The value that is the yes",
    "nonnegative": "No coefficient below 0",
    "hidden": "Hidden layers",
    "huber_epsilon": "Far off from (epsilon)",
    "quantile": "Quantile",
    "alpha": "Penalty strength (alpha)",
    "l1_ratio": "Mixing ratio (l1_ratio)",
    "features": "Columns to use",
    "exclude": "Columns to leave out",
    "weights": "Weights of the rows",
    "weights_are": "What weights mean",
    "offset": "Added to every score (offset)",
    "offset_as": "How it is added",
    "class_weight": "Weight of the two values",
    "categorical": "Read as names",
    "numeric": "Read as numbers",
    "coding": "Text columns become",
    "reference": "Levels to compare with",
    "max_levels": "Most levels of a text column",
    "min_level_rows": "Fewest rows of a level of its own",
    "impute": "A missing number becomes",
    "fill": "That number",
    "squares": "Squares of columns",
    "interactions": "Products of two columns",
    "transform": "Columns in other shapes",
    "indicators": "Mark missing numbers with a column of their own",
    "test_every": "Every how many rows",
    "test_fraction": "Share of rows",
    "seed": "Seed",
    "intercept": "Fit an intercept",
    "standardize": "Standardise the columns",
    "confidence": "Confidence of the intervals",
    "bands": "Level of intervals that follow the rows",
    "robust": "Robust standard errors",
    "engine": "Where the work is done",
    "cluster": "Address of the cluster",
    "open_cluster": "Use a cluster that asks nobody for a token",
    "workers": "Worker processes",
    "solver": "How to solve it",
    "mode": "Synchronisation",
    "epochs": "Epochs",
    "tolerance": "How close to the optimum",
    "finish_passes": "Full passes at most",
    "max_seconds": "Time limit",
    "patience": "Patience",
    "batch_size": "Batch size",
    "local_steps": "Steps between two averages",
    "staleness": "Maximum staleness (updates)",
    "step_rule": "Step rule",
    "learning_rate": "Learning rate",
    "schedule": "Learning rate schedule",
    "warmup": "Warm-up",
    "decay": "Decay factor",
    "decay_every": "Decay every",
    "momentum": "Momentum",
    "weight_decay": "Weight decay",
    "clip": "Gradient clipping (norm)",
    "compression": "Gradient compression",
    "top_k": "Share of values sent",
    "prefetch": "Read ahead",
    "io_queue_size": "Reads in the queue",
    "max_memory": "Share of memory in use at most",
    "shards": "Shards",
    "partition": "Rows are split",
    "parameter_shards": "Parameter shards",
    "aggregation": "Gradients are added up",
    "precision": "Precision",
    "mixed_precision": "Mixed precision (bfloat16)",
    "gradient_checkpointing": "Gradient checkpointing",
    "compile_mode": "Compile the network",
    "device": "Device",
    "gpu_memory_fraction": "Share of the GPU's memory",
    "penalty": "Penalty of a plug-in",
    "rules": "Plug-ins that check the table",
    "metrics": "Metrics of plug-ins",
    "callbacks": "Plug-ins that watch the run",
    "checkpoint_seconds": "Between two checkpoints",
    "keep_checkpoints": "Checkpoints kept",
    "checkpoint_strategy": "Checkpoints by a plug-in",
    "on_worker_loss": "A lost worker",
    "restarts": "Replacements at most",
    "retries": "Goes on by itself",
    "recovery": "Recovery by a plug-in",
    "delimiter": "Delimiter",
    "decimal": "Decimal mark",
    "thousands": "Thousands separator",
    "encoding": "Text encoding",
    "header": "First row",
    "quote": "Quotes",
    "comment": "Comment lines begin with",
    "skip_lines": "Lines above the table",
    "missing": "Texts that mean missing",
    "also_missing": "More texts that mean missing",
    "dates": "Order of dates",
    "limits": "Limits such as <0.5",
    "one_spelling": "Columns in one spelling",
    "sheet": "Sheet",
    "on_bad_rows": "Rows that cannot be read",
    "parts": "Files of this table may differ (parts)",
}
CHOICES = {
    "median": "the column's median",
    "mean": "the column's mean",
    "constant": "a number of your choice (constant)",
    "drop": "nothing: drop that row",
    "limit": "leave out, limited to 1 % and 100 rows",
    "stop": "stop at the first one",
    "skip": "skip all of them",
    "alike": "not at all (alike)",
    "common": "in columns: those that some lack are left out (common)",
    "mixed": "in how they are written (mixed)",
    "any": "in both (any)",
}
TYPES = {"numeric": "number", "datetime": "date", "categorical": "names", "text": "free text"}
FLAGS = {
    "constant": "always the same value",
    "mostly_missing": "more than half missing",
    "mark": "one text or blank: a mark for yes?",
    "leading_zeros": "leading zeros: a code, not a quantity?",
    "without_na": "NA is read as no value: a code too?",
    "high_cardinality": "too many different texts to use",
    "id_like": "nearly every row differs: a row number or key?",
    "leak": "gives the target away",
}
DROPPED = {
    "bad_row": "could not be read",
    "target_missing": "no value in the column to predict",
    "no_weight": "have no weight above 0",
    "offset_missing": "no value in the column of the offset",
    "feature_missing": "a value is missing in another column",
}
SOLVERS = {"exact": "Exact", "gradient": "Gradient steps"}
ABOUT_SOLVERS = {
    "exact": "Recommended: one pass over the rows, and a proof that no better fit exists.",
    "gradient": "Many small steps by several workers: to watch, to steer, or for tables too wide for the exact solver.",
}
# Every choice has its own word in it, that of flags, YAML files, tables and docs: it is known again there.
MODES = {
    "sync": "Synchronous (sync)",
    "ssp": "Bounded staleness (ssp)",
    "async": "Asynchronous (async)",
    "local": "Local steps (local)",
    "auto": "By the machines (auto)",
}
ABOUT_MODES = {
    "sync": "Every worker waits for the others in each step. The same result each time; best on equal cores.",
    "ssp": "A fast worker may be a few updates ahead, then waits. Best when some workers are slower than others.",
    "async": "No worker waits. Most rows a second, but steps use older weights and are made shorter for it.",
    "local": "Each worker takes several steps alone, then all are averaged. Best when messages are slow.",
    "auto": "Synchronous where messages are quick beside the work, else local steps; chosen when both have been timed.",
}
# Words that mean one thing for one knob and another for the next.
CHOICES_OF = {
    "model": MODELS,
    "shrink": {"none": "None", "ridge": "Ridge", "lasso": "Lasso", "elasticnet": "Elastic net"},
    "weights_are": {
        "importance": "how much a row counts (importance)",
        "frequency": "how many equal rows a row stands for (frequency)",
    },
    "robust": {"none": "none", "HC0": "HC0", "HC1": "HC1", "HC2": "HC2", "HC3": "HC3"},
    "offset_as": {"added": "as it is (added)", "exposure": "by its logarithm (exposure)"},
    "class_weight": {"none": "by their rows (none)", "balanced": "both alike (balanced)"},
    "solver": SOLVERS,
    "mode": MODES,
    "step_rule": {
        "sgd": "SGD (plain)",
        "momentum": "Momentum",
        "adagrad": "AdaGrad (by column)",
        "adam": "Adam",
        "adamw": "AdamW (weight decay)",
    },
    "schedule": {
        "constant": "constant",
        "step": "step decay",
        "exponential": "exponential decay",
        "cosine": "cosine decay to zero",
        "inverse": "inverse time decay (1 / t)",
    },
    "compile_mode": {
        "none": "not at all (none)",
        "default": "as is usual (default)",
        "reduce-overhead": "with less to do around each step (reduce-overhead)",
        "max-autotune": "the quickest that is found by trying (max-autotune)",
        "max-autotune-no-cudagraphs": "the same without CUDA graphs (max-autotune-no-cudagraphs)",
    },
    "device": {"auto": "automatic", "cpu": "processors (cpu)", "cuda": "a GPU (cuda)"},
    "compression": {"none": "none", "topk": "the largest values only (topk)", "half": "16-bit numbers (half)"},
    "partition": {"hash": "at random (hash)", "contiguous": "in the order of the file (contiguous)"},
    "aggregation": {"server": "by the server", "allreduce": "by workers among themselves (allreduce)"},
    "precision": {
        "auto": "as the data need (auto)",
        "float32": "single precision (float32)",
        "float64": "double precision (float64)",
    },
    "on_worker_loss": {
        "retry": "is replaced (retry)",
        "fewer": "is done without (fewer)",
        "stop": "ends the run (stop)",
    },
    "penalty": {"": "none: the model's own"},
    "coding": {
        "reference": "all levels but one to compare with (reference)",
        "full": "all levels (full)",
        "drop_first": "all levels but the first by alphabet (drop_first)",
    },
    "engine": {
        "auto": "by the size of the file (auto)",
        "inline": "one process (inline)",
        "processes": "worker processes",
        "ray": "a Ray cluster (ray)",
    },
}
# Where the config's own words are for the command line, the page has others.
HELP = {
    "model": "The first four are for numbers and differ in the penalty on coefficients; then yes or no, counts, and "
    "positive skewed numbers.",
    "shrink": "Pulls coefficients to zero. None gives standard errors and intervals for every coefficient.",
    "positive": "Probabilities are those of this value. Empty: the word for yes, the larger number or the later name.",
    "alpha": "How strongly coefficients are pulled to zero, as alpha in scikit-learn; 0 is no penalty. Left empty, "
    "it is chosen by cross-validation before the fit.",
    "l1_ratio": "0 is like ridge, 1 is the lasso, and between them a mixture.",
    "features": "Only these columns are used. Empty: all but the column to predict.",
    "exclude": "These columns are not used, for example row numbers or what is known only afterwards.",
    "weights": "A column of numbers that says how much each row counts; it is not used to predict.",
    "weights_are": "Standard errors count rows in one case, and the sum of the weights in the other.",
    "offset": "A column such as the time or the people that a count is of; predictions need it too.",
    "offset_as": "An exposure is what a count is proportional to.",
    "class_weight": "Both alike finds more of the rare value, at the price of false alarms.",
    "squares": "Their squares are used beside them, so that the effect of a number can bend.",
    "interactions": "The product of two columns is used beside them, so that the effect of one can depend on the "
    "other. A text column gives one product a level. Choose pairs, or type them as a:b.",
    "fill": "The number that stands in where a number of your choice is chosen.",
    "seed": "The same number gives the same choice of test rows, the same parts and the same order of batches.",
    "robust": "They hold where some rows spread more than others; HC3 is the usual choice.",
    "bands": "0.9: two lines beside the model say between which numbers nine in ten new rows lie, far apart where rows "
    "spread much. They need rows kept for testing. Empty: one width for all rows.",
    "confidence": "0.95: of a hundred such intervals, about 95 hold the true coefficient.",
    "engine": "One process is quickest for small files, worker processes for large ones, a cluster for those that "
    "outgrow this machine.",
    "workers": "Processes that share the work. Empty: one for each core.",
    "epochs": "An epoch goes over all rows once, in small steps. Full passes at the end come after them.",
    "tolerance": "After the steps, full passes go on until the loss is this close to its optimum, as a share of the "
    "way from the start. Empty: no such passes.",
    "max_seconds": "The run stops after so long, with the model it then has. Empty: no limit.",
    "patience": "Stop after so many epochs without a better score on the test rows. Empty: never.",
    "batch_size": "Rows of a part that one step looks at. Empty: as few as the cost of messages allows.",
    "local_steps": "Steps that a worker takes alone before all are averaged. Empty: chosen automatically.",
    "staleness": "How many updates old the weights may be that a gradient is computed from.",
    "step_rule": "How a gradient becomes a step. Plain steps are safe; the others can be quicker where columns differ.",
    "learning_rate": "The length of a step. Empty: the longest that is safe, from the curvature of the data.",
    "schedule": "Smaller steps towards the end even out the noise of small batches.",
    "decay": "The share of the learning rate that is left after the time beside it.",
    "decay_every": "The time after which only that share of the learning rate is left.",
    "momentum": "How much of the last step goes into the next. 0.9 is usual.",
    "weight_decay": "How much of each weight a step takes away, times the learning rate. 0.01 is usual.",
    "clip": "Longer gradients are shortened to this length. Empty: used as they are.",
    "compression": "Less to send for each step, at the cost of a little precision that later steps make good.",
    "top_k": "0.1: a tenth of the values is sent, those that changed most.",
    "prefetch": "Batches that are brought into memory before they are needed. Empty: as memory allows.",
    "io_queue_size": "The most batches that a worker has asked the disk for and not used yet. Empty: those read ahead.",
    "max_memory": "Above this share of the machine's memory workers read nothing ahead; batches are planned within it.",
    "mixed_precision": "Layers compute with half the digits, quicker on some processors; steps keep all of theirs.",
    "gradient_checkpointing": "Keeps less of a batch in memory and computes it again: slower, with the same result.",
    "compile_mode": "PyTorch compiles the network first, which takes a while and pays off in long runs.",
    "device": "Where batches are computed. Automatic: on a GPU of CUDA if there is one.",
    "gpu_memory_fraction": "For all processes of the run together. Empty: no limit.",
    "shards": "The rows are split into so many parts, which workers take in turn. Empty: by the size of the data.",
    "parameter_shards": "Processes that the parameters are spread over and stepped in. 1: the run's own process.",
    "aggregation": "By the server, or by workers among themselves (all-reduce). What comes of it is the same.",
    "warmup": "The learning rate rises from a tenth over so many epochs. Empty: at once.",
}
# Where the commands of a terminal are on the pages.
PLACES = {
    "db": "by the command shoal db on the server",
    "fork": "with the button Fork",
    "people": "on the People page",
    "logs": "on its page",
    "resume": "with the button Resume",
    "runs": "on the Runs page",
    "runs --archived": "on the Runs page, archived runs included",
    "search --continue": "with the button Continue",
    "search --list": "on the Search page",
    "send": "with the buttons on its page",
    "show": "on its page",
    "stop": "with the button Stop",
    "train": "on the Train page",
}


def help_for(knob: str) -> str:
    """The config's own words for a knob, as a sentence."""
    if knob in HELP:
        return HELP[knob]
    text: str = RunConfig.knobs()[knob].metadata["help"]
    return f"{text[0].upper()}{text[1:]}."


def alpha_help(model: str) -> str:
    """What alpha is beside another loss."""
    as_there = "1 / C of scikit-learn" if model == "logistic" else "alpha of scikit-learn"
    return (
        f"How strongly coefficients are pulled to zero, as {as_there}; 0 is no penalty. Left empty, it is chosen by "
        "cross-validation."
    )


def label_for(knob: str) -> str:
    """What a knob is called, with its unit unless the name says it."""
    label, unit = LABELS[knob], RunConfig.knobs()[knob].metadata.get("unit")
    return label if not unit or (len(unit) > 2 and unit in label.lower()) else f"{label} ({unit})"


def choice_for(knob: str, choice: str) -> str:
    """What one of a knob's choices is called; a plug-in by its name."""
    return CHOICES_OF.get(knob, CHOICES).get(choice, choice)


def default_of(knob: str) -> Any:
    return getattr(USUAL_CONFIG, knob)


def told(said: Exception | Standing | None) -> str:
    """What went wrong, or why a run is in its state, and what can be done about it on the pages."""
    if said is None:
        return "The answer is gone."
    if isinstance(said, Standing):
        return " ".join([said.cause, *map(remedied, said.remedies)])
    if isinstance(said, TrainingError):
        return " ".join([said.message, *map(remedied, said.remedies)])
    return str(said)


def remedied(remedy: Remedy) -> str:
    """A remedy with the fields and buttons of the pages; plain advice where they have none for it."""
    label = LABELS.get(remedy.name, "")
    if remedy.kind == RemedyKind.SET and label and not remedy.arguments:
        return f"{remedy.advice}: switch on '{label}'."
    if remedy.kind == RemedyKind.SET and label:
        choice = shortened(choice_for(remedy.name, *remedy.arguments), ROOM)
        return f"{remedy.advice}: set '{label}' to '{choice}'."
    if remedy.kind == RemedyKind.CHOOSE and label:
        return f"{remedy.advice} under '{label}'."
    if remedy.kind == RemedyKind.RUN and remedy.name in PLACES:
        return f"{remedy.advice} {PLACES[remedy.name]}."
    return f"{remedy.advice}."
