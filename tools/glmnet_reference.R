# Paths of R's glmnet and choices of its cv.glmnet, for tests/test_glmnet.py.
#
#     Rscript tools/glmnet_reference.R tests/glmnet
#
# The data come from a formula in whole numbers, so that R and Python have the same doubles. thresh is far under
# glmnet's usual 1e-7: it bounds the last change of the objective, and weights are then right to about its square root.
library(glmnet)

folder <- commandArgs(trailingOnly = TRUE)[1]
THRESH <- 1e-22
MAXIT <- 1e8

noise <- function(i, j) ((i * i * (7 * j + 3) + i * (31 * j + 17) + 101 * j) %% 997) / 997 - 0.5

made <- function(n, p) {
  i <- 0:(n - 1)
  U <- sapply(0:p, function(j) noise(i, j))
  X <- sapply(1:p, function(j) (U[, j + 1] + 0.6 * U[, j]) * (1 + j %% 4))
  beta <- sapply(1:p, function(j) if (j %% 3 == 0) 0 else 2 / j)
  list(X = X, y = as.vector(X %*% beta) + 1.5 * noise(i, p + 7) + 3)
}

number <- function(x) ifelse(is.finite(x), sprintf("%.17g", x), "null")
vector_json <- function(x) paste0("[", paste(number(x), collapse = ","), "]")
rows_json <- function(M) paste0("[", paste(apply(M, 1, vector_json), collapse = ","), "]")

path_json <- function(data, mixing, lambda) {
  fit <- glmnet(data$X, data$y, alpha = mixing, lambda = lambda, thresh = THRESH, maxit = MAXIT)
  stopifnot(fit$jerr == 0, length(fit$lambda) == length(lambda))
  paste0('{"mixing": ', number(mixing), ', "intercepts": ', vector_json(as.vector(fit$a0)),
         ', "coefficients": ', rows_json(t(as.matrix(fit$beta))), "}")
}

choice_json <- function(data, lambda, folds) {
  foldid <- (0:(length(data$y) - 1)) %% folds + 1
  cv <- cv.glmnet(data$X, data$y, alpha = 1, lambda = lambda, foldid = foldid, type.measure = "mse",
                  thresh = THRESH, maxit = MAXIT)
  paste0('{"folds": ', folds, ', "cvm": ', vector_json(cv$cvm), ', "cvsd": ', vector_json(cv$cvsd),
         ', "lambda_min": ', number(cv$lambda.min), ', "lambda_1se": ', number(cv$lambda.1se), "}")
}

for (shape in list(c(120, 8), c(60, 30), c(200, 5), c(40, 60))) {
  n <- shape[1]
  p <- shape[2]
  data <- made(n, p)
  largest <- max(abs(crossprod(scale(data$X) * sqrt(n / (n - 1)), data$y - mean(data$y)))) / n
  lambda <- largest * 10^-seq(0, if (n > p) 3 else 1.5, length.out = 40)
  paths <- sapply(c(1, 0.3, 0), function(mixing) path_json(data, mixing, lambda))
  choices <- sapply(c(5, 10), function(folds) choice_json(data, lambda, folds))
  writeLines(paste0('{"made_by": "R ', getRversion(), ", glmnet ", packageVersion("glmnet"), '", "n": ', n, ', "p": ', p,
                    ', "y_sum": ', number(sum(data$y)), ', "lambda": ', vector_json(lambda),
                    ',\n "paths": [', paste(paths, collapse = ",\n  "),
                    '],\n "choices": [', paste(choices, collapse = ",\n  "), "]}"),
             file.path(folder, sprintf("made_%d_%d.json", n, p)))
}
