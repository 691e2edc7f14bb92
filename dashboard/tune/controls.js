// What a person chooses on the Tune page: the column to predict, the model, the strength and the mix of its penalty.

class Controls {
  constructor(view) {
    this.view = view
    this.root = el("section", "tune-card tune-wide tune-controls")
    this.root.setAttribute("aria-label", "Model")
    this.root.append(this.targets(), this.models(), this.alphaSlider(), this.ratioSlider())
  }

  models() {
    const models = el("div", "tune-models")
    models.setAttribute("role", "radiogroup")
    models.setAttribute("aria-label", "Model")
    this.radios = this.view.settings.models.map((model) => {
      const label = el("label")
      const input = el("input")
      Object.assign(input, { type: "radio", name: `tune-model-${++serial}`, value: model.key })
      input.onchange = () => this.view.change({ model: model.key, alpha: this.view.keptAlpha })
      label.title = model.about
      label.append(input, el("span", "", model.name))
      models.append(label)
      return input
    })
    for (const radio of this.radios) radio.name = this.radios[0].name // one group: arrow keys move in it
    this.about = el("div", "tune-about")
    const root = el("div", "tune-block")
    root.append(el("div", "tune-label", "Model"), models, this.about)
    return root
  }

  targets() {
    this.target = el("select", "tune-select")
    const { view } = this
    const { targets, elsewhere } = view.settings
    const options = (names, into) => names.forEach((name) => into.append(Object.assign(el("option", "", name), { value: name }))) // prettier-ignore
    options(targets, this.target)
    if (elsewhere.length) {
      const group = el("optgroup")
      group.label = "With missing values: needs another pass"
      options(elsewhere, group)
      this.target.append(group)
    }
    this.target.onchange = () => {
      const name = this.target.value
      if (elsewhere.includes(name)) view.leaveFor(name)
      else view.change({ predict: name, alpha: view.keptAlpha })
    }
    const root = el("div", "tune-block")
    root.append(labelled("Column to predict", this.target), this.target)
    return root
  }

  alphaSlider() {
    const { view } = this
    this.slider = el("input", "tune-range")
    Object.assign(this.slider, { type: "range", min: 0, max: 99, step: 1, value: 50 })
    this.slider.oninput = () => {
      const place = this.slider.max - this.slider.value
      const known = view.curve && !view.pending
      view.change({ alpha: known ? String(view.curve.alphas[place]) : `place:${place}` })
    }
    this.typed = el("input", "tune-number")
    Object.assign(this.typed, { type: "text", inputMode: "decimal", autocomplete: "off" })
    this.typed.setAttribute("aria-label", "Alpha as a number")
    this.typed.onchange = () => {
      const value = Number(this.typed.value.replace(",", "."))
      const fine = Number.isFinite(value) && value >= 0 && this.typed.value.trim() !== ""
      this.typed.setAttribute("aria-invalid", String(!fine))
      put(view.problem, fine ? "" : `Expected a number of at least 0 for alpha, got '${this.typed.value}'. The last one is still used.`) // prettier-ignore
      if (fine) view.change({ alpha: String(value) })
    }
    this.typed.onblur = () => {
      this.typed.removeAttribute("aria-invalid")
      this.draw()
    }
    this.best = button("Best", () => view.change({ alpha: "best" }), "The alpha with the lowest cross-validated error. It is kept when anything else changes.") // prettier-ignore
    this.oneSe = button("1-SE", () => view.change({ alpha: "one_se" }), "The strongest penalty whose error is within one standard error of the best: a simpler model that is about as good.") // prettier-ignore
    this.alphaBlock = el("div", "tune-block")
    const head = el("div", "tune-head")
    head.append(labelled("Penalty strength (alpha)", this.slider), this.typed, this.best, this.oneSe)
    const ends = el("div", "tune-ends")
    cells(ends, "span", ["weaker", "stronger"])
    this.edge = el("div", "tune-hint")
    this.alphaBlock.append(head, this.slider, ends, this.edge)
    return this.alphaBlock
  }

  ratioSlider() {
    this.ratio = el("input", "tune-range")
    Object.assign(this.ratio, { type: "range", min: 0, max: 1, step: 0.05 })
    this.ratio.oninput = () => this.view.change({ ratio: Number(this.ratio.value) })
    this.ratioShown = el("output", "tune-value")
    this.ratioBlock = el("div", "tune-block")
    const head = el("div", "tune-head")
    head.append(labelled("Mixing ratio (l1_ratio)", this.ratio, "The share of the L1 part of the penalty."), this.ratioShown) // prettier-ignore
    const ends = el("div", "tune-ends")
    cells(ends, "span", ["0: ridge, keeps all", "1: lasso, picks columns"])
    this.ratioBlock.append(head, this.ratio, ends)
    return this.ratioBlock
  }

  draw() {
    const { state, point, curve, pending, settings } = this.view
    for (const radio of this.radios) radio.checked = radio.value === state.model
    put(this.about, settings.models.find((model) => model.key === state.model)?.about ?? "")
    this.target.value = state.predict
    this.alphaBlock.hidden = state.model === "linear"
    this.ratioBlock.hidden = state.model !== "elasticnet"
    this.ratio.value = state.ratio
    put(this.ratioShown, state.ratio.toFixed(2))
    const known = curve && !pending // until then nobody knows which alpha that is
    this.best.setAttribute("aria-pressed", String(known && state.alpha === "best"))
    this.oneSe.setAttribute("aria-pressed", String(known && state.alpha === "one_se"))
    const last = curve && !pending && curve.alphas.length - 1
    put(this.edge, last && curve.best === last ? "The best is at the weak end of this curve: a smaller alpha, typed as a number, may be better still." : "") // prettier-ignore
    if (!point) return
    if (document.activeElement !== this.typed || !this.typed.matches(":focus-visible")) this.typed.value = String(Number(point.alpha.toPrecision(5))) // prettier-ignore
    this.slider.setAttribute("aria-valuetext", `alpha ${number(point.alpha)}`)
    if (curve && curve.alphas.length > 1) {
      this.slider.max = curve.alphas.length - 1
      this.slider.value = this.slider.max - this.view.wanted
    }
  }
}
