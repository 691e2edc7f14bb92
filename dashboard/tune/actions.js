// What can be done with the model that is shown: train it, or take its command along.

const USE = "An exact run with these settings, which keeps its cross-validated error."

class Actions {
  constructor(view) {
    this.view = view
    const root = (this.root = el("section", "tune-card tune-wide tune-actions"))
    root.setAttribute("aria-label", "What to do with this model")
    this.train = button("Train this model", () => {
      this.soon = view.answeredFor !== view.asked // the model at hand is about to be another
      if (this.soon) return
      this.sent = this.train.disabled = true
      view.tell("train", { ...view.said(), alpha: String(view.alpha), chosen: view.state.alpha })
    })
    this.train.classList.add("is-primary")
    this.copy = button("Copy command", () => this.copyCommand())
    this.copied = el("span", "tune-hint", USE)
    this.copied.setAttribute("role", "status")
    this.commands = el("pre", "tune-command")
    this.commands.hidden = true
    root.append(this.train, this.copy, this.copied, this.commands)
  }

  // A command of another model than the one shown would be taken for this one's.
  draw() {
    const { view } = this
    const searching = view.pinned && view.pending
    const asleep = view.settings.refused || (searching ? "The best alpha is not known yet." : "")
    this.train.disabled = this.sent || asleep !== "" || !view.point || view.root.classList.contains("is-refused")
    this.train.title = asleep
    if (this.soon && !this.train.disabled) this.train.click()
    if (this.commands.hidden || this.commandsFor === this.view.exact()) return
    this.commands.hidden = true
    put(this.copied, USE)
  }

  async copyCommand() {
    const { view } = this
    try {
      const asked = (this.commandsFor = view.exact())
      const { lines } = await ask(`${view.settings.url}/command?${asked}`)
      put(this.commands, lines.join("\n"))
      this.commands.hidden = false
      await navigator.clipboard.writeText(lines.join("\n"))
      put(this.copied, "Copied: the first line trains this model, the second makes its curve.")
    } catch (error) {
      put(this.copied, this.commands.hidden ? error.message : "The browser does not let pages copy here; mark the lines below.") // prettier-ignore
    }
  }
}
