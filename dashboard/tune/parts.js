// Cards, buttons and labels that the parts of the Tune page are made of.

const share = (value) => (value === null || value === undefined ? "–" : `${(100 * value).toFixed(1)} %`)
// Names of one table often differ at their ends only, so they are cut in the middle; the whole name is at hand as a title.
function shortened(text, most = 22) {
  const tail = Math.floor((most - 1) / 3)
  return text.length > most ? `${text.slice(0, most - 1 - tail)}…${text.slice(-tail)}` : text
}
const TAIL = 10 // letters at the end of a long name that are always seen
const LEVEL = 30 // letters of a level that has a line of its own

// The column and its level, where both are too long for one line and the level for the end of a name that is cut.
function columnAndLevel(term, [column, ...others]) {
  if (others.length || !term.startsWith(`${column}=`)) return null
  const level = term.slice(column.length + 1)
  return level.length <= LEVEL && term.length > LEVEL ? [column, level] : null
}

// A column of the design in the cell of a table: of a long name the whole level is seen, or levels would look alike.
function termed(cell, term, owners) {
  const parts = columnAndLevel(term, owners)
  if (!parts) return named(cell, term)
  cell.title = term
  cell.append(named(el("div"), parts[0]), el("div", "tune-level", `= ${parts[1]}`))
  return cell
}

// The same in one line of a legend.
function inLegend(term, owners, most = 30) {
  const parts = columnAndLevel(term, owners)
  if (!parts) return shortened(term, most)
  const level = shortened(parts[1], most - 10)
  return `${shortened(parts[0], most - 1 - level.length)}=${level}`
}

function named(element, name) {
  element.classList.add("tune-name")
  element.title = name
  if (name.length <= 2 * TAIL) {
    element.textContent = name
    return element
  }
  const box = el("span", "tune-cut")
  box.append(el("span", "", name.slice(0, -TAIL)), el("span", "", name.slice(-TAIL)))
  element.append(box)
  return element
}

// A name in a box that follows the pointer: whole, in lines.
const whole = (name) => escaped(name).replace(/(.{50}\S*)\s/g, "$1<br>")
let serial = 0

function card(title, hint = "") {
  const root = el("section", "tune-card")
  const header = el("header")
  const heading = el("h2", "", title)
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
