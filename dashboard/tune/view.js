// The Tune page: sliders, ticks and charts around one model. Every question goes to one route; what is drawn is the last
// answer. Nothing here knows how a model is fitted.

const REST = 400 // milliseconds without a change after which what takes longer is asked for
const ADDRESS = 250 // and after which the address of the page follows
const RETRY = 2000 // before a server that did not answer is asked again
const tunes = new WeakMap()

class Tune {
  constructor(parent, settings) {
    this.settings = settings
    const { start } = settings
    this.state = { predict: start.predict || settings.target, out: new Set(start.out), model: start.model, ratio: start.ratio, alpha: start.alpha } // prettier-ignore
    this.asker = new Asker((answer, more) => this.take(answer, more), (problem, mortal) => this.fail(problem, mortal))
    this.root = el("div", "tune")
    parent.append(this.root)
    this.build()
    this.controls.draw() // what is chosen is known before the first answer
    this.follow()
  }

  build() {
    this.controls = new Controls(this)
    this.waiting = new Waiting(this)
    this.tiles = new Tiles(this)
    this.error = new ErrorCurve(this)
    this.lines = new PathChart(this)
    this.coefficients = new Coefficients(this)
    this.columns = new Columns(this)
    this.doubt = new Doubt(this)
    this.actions = new Actions(this)
    this.problem = el("div", "tune-problem")
    this.problem.setAttribute("role", "alert")
    this.flat = el("div", "tune-card tune-wide tune-flat", "A linear model has no penalty, so there is no curve and no path: its one answer is below.") // prettier-ignore
    this.flat.hidden = true
    this.root.append(
      this.controls.root, this.problem, this.waiting.root, this.tiles.root, this.error.root, this.lines.root, this.flat,
      this.coefficients.root, this.columns.root, this.doubt.root, this.actions.root,
    ) // prettier-ignore
  }

  get alpha() {
    return this.point?.alpha
  }

  get pinned() {
    return this.state.alpha === "best" || this.state.alpha === "one_se"
  }

  // Columns of the file with a weight that is not 0, once there is a model.
  get kept() {
    const { owners, point } = this
    return owners && new Set(owners.flatMap((columns, j) => (point.weights[j] ? columns : [])))
  }

  // The alpha to ask another model for: the named one, or the one at the same place of its path.
  get keptAlpha() {
    return this.pinned ? this.state.alpha : `place:${this.place ?? 50}`
  }

  // The place of the path that is nearest to the alpha that is shown.
  get place() {
    if (this.curve && this.curve.alphas.length > 1 && this.point) this.lastPlace = this.nearest(this.point.alpha)
    return this.lastPlace // a linear model has no path: whoever leaves it comes back to where the slider stood
  }

  // And to the alpha that was asked for last: the slider must not go back while an answer is on its way.
  get wanted() {
    const { alpha } = this.state
    if (this.pinned) return this.place
    return alpha.startsWith("place:") ? Number(alpha.slice(6)) : this.nearest(Number(alpha))
  }

  nearest(alpha) {
    const { alphas } = this.curve
    const far = (i) => Math.abs(Math.log(Math.max(alphas[i], 1e-300) / Math.max(alpha, 1e-300)))
    let found = 0
    for (let i = 1; i < alphas.length; i++) if (far(i) < far(found)) found = i
    return found
  }

  said() {
    const { predict, out, model, ratio, alpha } = this.state
    return { predict: predict === this.settings.target ? "" : predict, out: [...out], model, ratio, alpha }
  }

  parameters(more = {}) {
    const { predict, out, model, ratio, alpha } = this.said()
    const given = new URLSearchParams({ model, alpha, ...more })
    if (model === "elasticnet") given.set("ratio", String(ratio))
    if (predict) given.set("predict", predict)
    if (out.length) given.set("out", JSON.stringify(out))
    return given.toString()
  }

  // The question at the very alpha that is shown.
  exact() {
    return this.parameters({ alpha: String(this.alpha) })
  }

  change(changes) {
    Object.assign(this.state, changes)
    this.follow()
    this.controls.draw()
  }

  pick(alpha) {
    if (typeof alpha === "number" && this.curve) this.change({ alpha: String(alpha) })
  }

  follow() {
    this.asked = this.parameters()
    this.root.setAttribute("aria-busy", "true")
    this.waiting.draw()
    clearTimeout(this.resting)
    this.worthStop?.abort()
    const more = { ...(this.key && { have: this.key }), ...(this.alpha !== undefined && { near: String(this.alpha) }) }
    this.asker.ask(`${this.settings.url}?${this.parameters(more)}`)
    clearTimeout(this.addressing)
    this.addressing = setTimeout(() => this.keepAddress(), ADDRESS)
  }

  take(answer, more) {
    this.point = answer.point
    this.pending = answer.pending
    // Without their curve: whoever comes back to the one before needs its terms again.
    if (answer.terms) Object.assign(this, { terms: answer.terms, owners: answer.owners, compared: answer.compared, key: null })
    if (answer.curve) {
      this.key = answer.key
      this.curve = { ...answer.curve, path: unpacked(answer.curve.path, answer.terms.length) }
    }
    if (this.state.alpha.startsWith("place:") && !more) {
      this.state.alpha = String(answer.point.alpha)
      this.asked = this.parameters()
      this.keepAddress()
    }
    put(this.problem, "")
    this.root.classList.remove("is-refused")
    if (!more) this.answeredFor = this.asked
    this.schedule()
    if (more) return
    if (answer.pending) this.asker.next = `${this.settings.url}?${this.parameters({ ...(this.key && { have: this.key }), wait: "1" })}` // prettier-ignore
    else this.resting = setTimeout(() => this.askWorth(), REST)
  }

  fail(problem, mortal) {
    put(this.problem, problem)
    this.root.setAttribute("aria-busy", "false")
    // What is on the page answers another question than the one that was refused.
    this.root.classList.toggle("is-refused", !!mortal)
    this.waiting.draw()
    this.actions.draw()
    this.controls.draw()
    this.columns.draw()
    if (!mortal) this.resting = setTimeout(() => this.follow(), RETRY)
  }

  async askWorth() {
    const asked = this.asked
    this.worthStop = new AbortController()
    try {
      this.worth = await ask(`${this.settings.url}/worth?${this.exact()}`, this.worthStop.signal)
      this.worthFor = asked
    } catch {
      return // something newer is asked, or the next answer says what is wrong
    }
    this.columns.draw()
  }

  schedule() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null
      this.draw()
    })
  }

  draw(anew = false) {
    if (!this.point || !this.terms) return
    const began = performance.now()
    this.root.setAttribute("aria-busy", String(!!this.pending || !!this.asker.flying))
    for (const part of [this.controls, this.waiting, this.tiles, this.coefficients, this.columns, this.actions]) part.draw()
    this.doubt.mark()
    this.flat.hidden = this.state.model !== "linear" || this.pending
    for (const figure of [this.error, this.lines]) {
      figure.root.classList.toggle("is-stale", !!this.pending)
      if (!this.pending) figure.draw(anew).catch(() => {}) // drawn again with the next answer
    }
    this.root.dataset.drawn = `${this.alpha}`
    this.cost = performance.now() - began
  }

  keepAddress() {
    const place = new URL(location.href)
    const { predict, out, model, ratio, alpha } = this.said()
    const said = { predict, out: out.length ? JSON.stringify(out) : "", model: model === "lasso" ? "" : model, ratio: model === "elasticnet" ? String(ratio) : "", alpha: alpha === "best" ? "" : alpha } // prettier-ignore
    for (const [part, text] of Object.entries(said)) {
      if (text) place.searchParams.set(part, text)
      else place.searchParams.delete(part)
    }
    if (place.href !== location.href) history.replaceState(history.state, "", place)
  }

  // Another target needs other sums: the page makes them, and comes back with them.
  leaveFor(target) {
    this.asker.close()
    this.root.setAttribute("aria-busy", "true")
    this.tell("target", target)
  }

  settle(settings, tell) {
    Object.assign(this, { settings, tell })
    this.actions.sent = false
    this.actions.draw()
    this.draw(true) // the theme may be another
  }

  destroy() {
    for (const timer of [this.resting, this.addressing]) clearTimeout(timer)
    cancelAnimationFrame(this.frame)
    this.worthStop?.abort()
    this.asker.close()
    this.waiting.destroy()
    this.error.destroy()
    this.lines.destroy()
    this.root.remove()
  }
}

export default function ({ parentElement, data, setTriggerValue }) {
  let view = tunes.get(parentElement)
  if (view && view.settings.url !== data.url) {
    view.destroy()
    view = null
  }
  if (!view) tunes.set(parentElement, (view = new Tune(parentElement, data)))
  view.settle(data, setTriggerValue)
  return () => {
    tunes.delete(parentElement)
    view.destroy()
  }
}
