# Paths of R's glmnet for other losses than squares, and cross-validated deviances of its cv.glmnet, for tests/tuning.
#
#     Rscript tools/glmnet_losses.R tests/tuning/glmnet
#
# The data come from a formula in whole numbers, so that R and Python have the same doubles.
library(glmnet)

folder <- commandArgs(trailingOnly = TRUE)[1]
THRESH <- 1e-20
MAXIT <- 1e8

noise <- function(i, j) ((i * i * (7 * j + 3) + i * (31 * j + 17) + 101 * j) %% 997) / 997 - 0.5

made <- function(n, p, family) {
  i <- 0:(n - 1)
  U <- sapply(0:p, function(j) noise(i, j))
  X <- sapply(1:p, function(j) (U[, j + 1] + 0.6 * U[, j]) * (1 + j %% 4))
  beta <- sapply(1:p, function(j) if (j %% 3 == 0) 0 else 2 / j)
  score <- as.vector(X %*% beta)
  y <- if (family == "binomial") as.numeric(score + 3 * noise(i, p + 7) > 0.3) else floor(exp(0.8 * score + 2 * noise(i, p + 7)))
  list(X = X, y = y)
}

number <- function(x) ifelse(is.finite(x), sprintf("%.17g", x), "null")
vector_json <- function(x) paste0("[", paste(number(x), collapse = ","), "]")
rows_json <- function(M) paste0("[", paste(apply(M, 1, vector_json), collapse = ","), "]")

path_json <- function(data, family, mixing, lambda) {
  fit <- glmnet(data$X, data$y, family = family, alpha = mixing, lambda = lambda, thresh = THRESH, maxit = MAXIT)
  stopifnot(fit$jerr == 0, length(fit$lambda) == length(lambda))
  foldid <- (0:(length(data$y) - 1)) %% 5 + 1
  cv <- cv.glmnet(data$X, data$y, family = family, alpha = mixing, lambda = lambda, foldid = foldid,
                  type.measure = "deviance", thresh = THRESH, maxit = MAXIT, grouped = TRUE)
  paste0('{"mixing": ', number(mixing), ', "intercepts": ', vector_json(as.vector(fit$a0)),
         ', "coefficients": ', rows_json(t(as.matrix(fit$beta))),
         ', "cvm": ', vector_json(cv$cvm), ', "lambda_min": ', number(cv$lambda.min), "}")
}

for (family in c("binomial", "poisson")) {
  n <- 300
  p <- 8
  data <- made(n, p, family)
  largest <- max(abs(crossprod(scale(data$X) * sqrt(n / (n - 1)), data$y - mean(data$y)))) / n
  lambda <- largest * 10^-seq(0, 3, length.out = 12)
  paths <- sapply(c(1, 0.3, 0), function(mixing) path_json(data, family, mixing, lambda))
  writeLines(paste0('{"made_by": "R ', getRversion(), ", glmnet ", packageVersion("glmnet"), '", "n": ', n, ', "p": ', p,
                    ', "y_sum": ', number(sum(data$y)), ', "lambda": ', vector_json(lambda),
                    ',\n "paths": [', paste(paths, collapse = ",\n  "), "]}"),
             file.path(folder, sprintf("%s.json", family)))
}
