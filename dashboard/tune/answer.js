// The model that answers the present choice: its errors as tiles, its coefficients as a table.

const ROWS = 25 // coefficients that are listed before somebody asks for all

class Tiles {
  constructor(view) {
    this.view = view
    this.root = el("div", "tune-tiles tune-wide")
    const tile = (key, label, help) => {
      const box = el("div", "tune-tile")
      box.dataset.tile = key
      box.title = help
      const value = el("div", "tune-big", "–")
      const note = el("div", "tune-note", "\u00a0")
      box.append(el("div", "tune-label", label), value, note)
      this.root.append(box)
      return { box, value, note }
    }
    this.tile = {
      cv: tile("cv", "Cross-validated error (RMSE)", "What the model is off by on rows that it was not fitted to: the root of the mean squared error over all folds, in the target's units."),
      r2: tile("r2", "Explained in cross-validation", "1 - (cross-validated mean squared error) / (variance of the target): 100 % is perfect, 0 % is as good as always saying the mean."),
      train: tile("train", "Error on training rows", "The same on the rows it was fitted to. Much lower than the cross-validated error means that it learns noise."),
      test: tile("test", "Error on test rows", "The same on the rows that were kept apart from everything here."),
      kept: tile("kept", "Columns kept", "Columns of the file with a weight that is not 0."),
    } // prettier-ignore
  }

  draw() {
    const { point, kept, settings, state } = this.view
    const { cv, train, test } = point
    const known = cv.mse !== null // the first model comes before its errors over the folds
    put(this.tile.cv.value, known ? number(cv.rmse) : "…")
    put(this.tile.cv.note, known ? `mean squared error ${number(cv.mse)} ± ${number(cv.se, 3)}` : "being worked out")
    put(this.tile.r2.value, known ? share(cv.r2) : "…")
    put(this.tile.r2.note, "of the target's variance")
    put(this.tile.train.value, number(train.rmse))
    put(this.tile.train.note, `${share(train.r2)} explained`)
    this.tile.test.box.hidden = !test
    if (test) {
      put(this.tile.test.value, number(test.rmse))
      put(this.tile.test.note, `${share(test.r2)} explained`)
    }
    const used = settings.columns.filter((name) => name !== state.predict && !state.out.has(name)).length
    put(this.tile.kept.value, `${kept.size} of ${used}`)
    const weights = point.weights.filter((w) => w).length
    put(this.tile.kept.note, weights === kept.size ? "\u00a0" : `${weights} weights, with levels of text columns`)
  }
}

class Coefficients {
  constructor(view) {
    this.view = view
    const { root, note, tools } = card("Coefficients at this alpha")
    Object.assign(this, { root, note })
    this.all = button("Show all", () => {
      this.showsAll = !this.showsAll
      this.draw()
    })
    tools.append(this.all)
    const holder = el("div", "tune-scroll")
    holder.tabIndex = 0 // so that keys can scroll it
    this.table = el("table", "tune-table")
    holder.append(this.table)
    this.certificate = el("div", "tune-hint")
    this.compared = el("div", "tune-hint")
    root.append(holder, this.compared, this.certificate)
    root.dataset.part = "coefficients"
  }

  draw() {
    const { terms, point } = this.view
    const order = terms.map((_, j) => j).sort((a, b) => Math.abs(point.weights[b]) - Math.abs(point.weights[a]))
    const kept = order.filter((j) => point.weights[j])
    const shown = this.showsAll ? order : kept.slice(0, ROWS)
    const most = Math.max(...kept.slice(0, 1).map((j) => Math.abs(point.weights[j])), 1e-300)
    const head = cells(el("tr"), "th", ["Column", "Weight", "Standardised", "In the file's units"])
    const rows = shown.map((j) => this.row(j, point.weights[j], point.coefficients[j], most))
    const last = cells(el("tr", "tune-quiet"), "td", ["(intercept)", "", "", number(point.intercept)])
    this.table.replaceChildren(el("thead"), el("tbody"))
    this.table.tHead.append(head)
    this.table.tBodies[0].append(...rows, last)
    const zeros = terms.length - kept.length
    put(this.note, zeros ? `${kept.length} with a weight, ${zeros} are exactly 0` : `${kept.length} with a weight`)
    this.all.hidden = terms.length <= ROWS && !zeros
    put(this.all, this.showsAll ? "Show fewer" : `Show all ${terms.length}`)
    put(this.compared, [this.view.compared, this.view.settings.perDay].filter(Boolean).join(" "))
    const { kind, relative } = point.certificate
    const sure = relative < 1e-8 ? "exact to rounding" : `within ${number(relative, 2)} of the optimum`
    put(this.certificate, `Proven by its ${kind === "kkt" ? "gradient" : "duality gap"}: ${sure}.`)
  }

  row(j, w, coef, most) {
    const name = this.view.terms[j]
    const row = el("tr")
    row.dataset.term = name
    const bar = el("td", "tune-bar")
    const fill = el("i")
    fill.style.width = `${(50 * Math.abs(w)) / most}%`
    fill.style[w < 0 ? "right" : "left"] = "50%"
    fill.className = w < 0 ? "is-minus" : ""
    bar.append(fill)
    const value = el("td", "tune-figure", number(coef))
    value.dataset.value = coef
    row.append(termed(el("td"), name, this.view.owners[j]), bar, el("td", "tune-figure", number(w, 3)), value)
    return row
  }
}
