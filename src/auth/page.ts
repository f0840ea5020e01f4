const entities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

/** What a page may do: show text, and send its forms; nothing is loaded and nobody may frame it. */
export const pagePolicy = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'"

/** Makes any text safe to stand in HTML, in an attribute's quotes too. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => entities[character] as string)
}

/** A whole page; `title` is text, `body` is HTML already. */
export function page(title: string, body: string): string {
  const heading = escapeHtml(title)
  return `<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${heading}</title></head>
<body><main><h1>${heading}</h1>
${body}
</main></body>
</html>
`
}
