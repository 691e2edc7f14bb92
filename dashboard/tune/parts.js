// Cards, buttons and labels that the parts of the Tune page are made of.

const share = (value) => (value === null || value === undefined ? "–" : `${(100 * value).toFixed(1)} %`)
const shortened = (text, most = 22) => (text.length > most ? `${text.slice(0, most - 1)}…` : text)
let serial = 0

function card(title, hint = "") {
  const root = el("section", "tune-card")
  const header = el("header")
  const heading = el("h3", "", title)
  heading.id = `tune-h${++serial}`
  root.setAttribute("aria-labelledby", heading.id)
  const note = el("span", "tune-hint", hint)
  const tools = el("span", "tune-tools")
  header.append(heading, note, tools)
  root.append(header)
  return { root, note, tools }
}

function button(text, act, help = "") {
  const made = el("button", "tune-button", text)
  made.type = "button"
  made.onclick = act
  if (help) made.title = help
  return made
}

function labelled(text, control, help = "") {
  control.id = `tune-c${++serial}`
  const label = el("label", "tune-label", text)
  label.htmlFor = control.id
  if (help) label.title = help
  return label
}

function cells(row, tag, texts) {
  for (const text of texts) row.append(el(tag, "", text))
  return row
}
