/** What the page remembers between visits: settings only, never texts or keys. Works, forgetting, without storage. */

export function remembered(name, otherwise = null) {
  try {
    return JSON.parse(localStorage.getItem(`glimpse.${name}`)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function remember(name, value) {
  try {
    localStorage.setItem(`glimpse.${name}`, typeof value === "string" ? value : JSON.stringify(value));
  } catch {
    // Private windows may refuse.
  }
}
