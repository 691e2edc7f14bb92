// What the Tune page says while something is worked out, so that nobody looks at an empty frame or takes the model of the
// moment for the best one.

const POLL = 700 // milliseconds between two looks at how far it is

class Waiting {
  constructor(view) {
    this.view = view
    this.root = el("section", "tune-card tune-wide tune-waiting")
    this.text = el("div", "tune-hint")
    this.text.setAttribute("role", "status")
    this.bar = el("progress")
    this.bar.max = 1
    this.bar.setAttribute("aria-label", "How much of the curve is worked out")
    this.root.append(this.text, this.bar)
    this.root.dataset.part = "waiting"
  }

  get words() {
    const { point, pending, pinned, state } = this.view
    if (!point) return "Fitting the first model …"
    if (!pending) return ""
    const marked = state.alpha === "best" ? "the best alpha" : "the alpha at 1-SE"
    const why = pinned ? `to find ${marked}; until then the model at alpha ${number(point.alpha)} is shown` : "for the curve"
    return `Working out the cross-validated errors of all alphas ${why} …`
  }

  draw() {
    const said = this.view.root.classList.contains("is-refused") ? "" : this.words
    put(this.text, said)
    this.root.hidden = !said
    if (said) this.timer ??= setInterval(() => this.look(), POLL)
    else this.destroy()
  }

  async look() {
    const { view } = this
    if (!view.point) return
    try {
      const { share } = await ask(`${view.settings.url}/progress?${view.parameters()}`)
      this.bar.value = share
    } catch {
      this.bar.removeAttribute("value") // it goes on; the question itself says what is wrong
    }
  }

  destroy() {
    clearInterval(this.timer)
    this.timer = null
    this.bar.removeAttribute("value")
  }
}
