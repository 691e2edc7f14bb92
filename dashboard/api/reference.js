// Draws the document of the API; everything in it is put on the page as text.
"use strict";

function made(tag, text, kind) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text.replaceAll("`", "");
  if (kind) node.className = kind;
  return node;
}

function under(parent, ...children) {
  parent.append(...children);
  return parent;
}

function table(head, rows) {
  const top = under(made("thead"), under(made("tr"), ...head.map((text) => {
    const cell = made("th", text);
    cell.scope = "col";
    return cell;
  })));
  const body = under(made("tbody"), ...rows.map((row) => under(made("tr"), ...row.map((text) => made("td", text)))));
  return under(made("table"), top, body);
}

function resolved(whole, schema) {
  const name = schema && schema.$ref ? schema.$ref.split("/").pop() : "";
  return name ? whole.components.schemas[name] : schema || {};
}

function kind(schema) {
  if (schema.$ref) return schema.$ref.split("/").pop();
  const type = [].concat(schema.type || "anything").join(" or ");
  return schema.enum ? `${type}: ${schema.enum.join(", ")}` : schema.items ? `${type} of ${kind(schema.items)}` : type;
}

function fields(whole, schema) {
  const found = resolved(whole, schema);
  const rows = Object.entries(found.properties || {}).map(([name, one]) => [
    name, kind(one), (found.required || []).includes(name) ? "yes" : "", one.description || ""]);
  return rows.length ? table(["Field", "Type", "Always", "Meaning"], rows) : made("p", kind(schema || {}));
}

function content(part) {
  const [type, one] = Object.entries(part.content || {})[0] || ["", {}];
  return [type, one.schema];
}

function operation(whole, path, method, said) {
  const inside = made("div", undefined, "inside");
  inside.append(made("p", said.description));
  if (said.parameters.length) {
    inside.append(made("h3", "Parameters"), table(["Name", "In", "Type", "Meaning"], said.parameters.map((one) =>
      [one.name, one.in, kind(one.schema), one.description || one.schema.description || ""])));
  }
  if (said.requestBody) {
    const [type, schema] = content(said.requestBody);
    inside.append(made("h3", `Body (${type})`), schema ? fields(whole, schema) : made("p", "The bytes of a file."));
  }
  for (const [status, answer] of Object.entries(said.responses).filter(([code]) => code < "300")) {
    const [type, schema] = content(answer);
    inside.append(made("h3", `Answer ${status}: ${answer.description} (${type})`));
    if (schema) inside.append(fields(whole, schema));
  }
  const others = Object.entries(said.responses).filter(([code]) => code >= "300");
  inside.append(made("h3", "Other answers"), table(["Status", "Meaning"], others.map(([code, one]) => [code, one.description])));
  const head = under(made("summary"), made("span", method.toUpperCase(), "method"), made("span", path, "path"),
    made("span", said.summary, "about"));
  const whole_ = under(made("details"), head, inside);
  whole_.id = said.operationId;
  return whole_;
}

async function show() {
  const here = document.getElementById("operations");
  const root = new URL(".", location.href);
  document.getElementById("example").textContent = `curl -H "Authorization: Bearer shoal_..." ${new URL("runs", root)}`;
  const answer = await fetch("openapi.json");
  const whole = await answer.json();
  if (!answer.ok) {
    here.replaceChildren(made("p", whole.detail || whole.problem || "The document could not be read. Reload the page."));
    return;
  }
  const groups = new Map();
  for (const [path, methods] of Object.entries(whole.paths)) {
    for (const [method, said] of Object.entries(methods)) {
      const tag = said.tags[0];
      if (!groups.has(tag)) groups.set(tag, made("section"));
      const group = groups.get(tag);
      if (!group.childElementCount) group.append(made("h2", tag));
      group.append(operation(whole, path, method, said));
    }
  }
  here.replaceChildren(...groups.values());
}

show().catch((error) => document.getElementById("operations").replaceChildren(made("p", `${error}`)));
