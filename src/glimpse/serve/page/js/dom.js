/** Elements, without the ceremony. */

export const byId = (id) => document.getElementById(id);

/** `make("p", {className: "hint"}, "text", child)` */
export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

/** `draw("rect", {x: 0}, ...)`: the same for SVG, with attributes. */
export function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
