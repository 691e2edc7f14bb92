// What the browser does around Streamlit's pages, from their first byte on.
(() => {
  // One step of the history is what a person did. What a page then adds to its address by itself, such as the table at
  // hand, belongs to that step: Back would otherwise lead to the address that it had for a moment.
  let acted = false
  for (const kind of ["pointerdown", "keydown", "click", "input", "change", "drop"])
    addEventListener(kind, () => { acted = true }, true)
  const push = history.pushState
  history.pushState = function (...step) {
    (acted ? push : history.replaceState).apply(history, step)
    acted = false
    remember()
  }

  // A dashboard that was started again knows nothing of this tab. With each connection it hears of the table at hand, or
  // the menu would open every page without one.
  let table = ""
  const remember = () => { table = new URLSearchParams(location.search).get("data") ?? table }
  window.WebSocket = class extends WebSocket {
    constructor(address, ...how) {
      remember()
      const there = new URL(address, location.href)
      if (table && there.pathname.endsWith("/_stcore/stream")) there.searchParams.set("table", table)
      super(there.href, ...how)
    }
  }

  // A menu leads to the beginning of the page that one is on, too: from a run to the form, from a model to all of them.
  // Streamlit would only draw the same again. It has heard of the click before this, and of the address after it.
  addEventListener("click", (event) => {
    const link = event.target.closest?.("a[aria-current=page]")
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || !location.search) return
    history.pushState({}, "", link.href)
    dispatchEvent(new PopStateEvent("popstate", { state: {} }))
  })

  // A field of decimal numbers takes a decimal comma as well: a browser that writes points would drop it without a word,
  // and 1,5 would be 15. One that writes commas is waited for: what it has taken itself stays as it is. Whole numbers have
  // no such field.
  const isDecimal = (field) => field?.type === "number" && !Number.isInteger(Number(field.step || 1))
  const writesCommas = (1.5).toLocaleString().includes(",")
  const insert = (text) => document.execCommand("insertText", false, text)
  let inputs = 0
  addEventListener("input", () => { inputs += 1 }, true)
  addEventListener("keydown", (event) => {
    if (event.key !== "," || !isDecimal(event.target)) return
    const before = inputs
    if (writesCommas) return void setTimeout(() => { if (inputs === before) insert(".") })
    event.preventDefault()
    insert(".")
  }, true)
  addEventListener("paste", (event) => {
    const text = event.clipboardData?.getData("text").trim() ?? ""
    if (!isDecimal(event.target) || !/^[+-]?\d*,\d+$/.test(text) || writesCommas) return
    event.preventDefault()
    insert(text.replace(",", "."))
  }, true)

  // What a button opens is drawn outside of the page's own parts: it is a dialog, named as the button.
  new MutationObserver(() => {
    for (const body of document.querySelectorAll("[data-testid=stPopoverBody]:not([role])")) {
      const opener = document.querySelector("[data-testid=stPopover] button[aria-expanded=true]")
      body.setAttribute("role", "dialog")
      body.setAttribute("aria-label", opener?.innerText.split("\n").find((line) => /\s|[A-Z]/.test(line)) ?? "More")
    }
  }).observe(document, { childList: true, subtree: true })

  // A folded part opens at once. While it grows for half a second, what is in it moves, and a list of choices that was
  // opened meanwhile closes again.
  const animate = Element.prototype.animate
  Element.prototype.animate = function (frames, how) {
    return animate.call(this, frames, this.nodeName === "DETAILS" ? { ...how, duration: 0 } : how)
  }
})()
