import { hash } from 'node:crypto'
import { html, type Markup } from './html.ts'
import { styleSheet } from './style.ts'

/** The appearance of the pages, as configured by the operator. */
export interface Branding {
  productName: string
  /** The accent color as `#rrggbb`. */
  accentColor: string
}

/** A complete page with its Content-Security-Policy. */
export interface Page {
  html: string
  policy: string
}

export interface FrameOptions {
  /** URLs outside this service to which forms on the page may redirect. */
  targets?: readonly string[]
  /** Makes the page wide enough for examples and tables; forms need less space. */
  isWide?: boolean
}

/** Renders a page in the common layout. */
export type Frame = (title: string, body: Markup, options?: FrameOptions) => Page

/**
 * Returns a function that renders pages in a common layout. The pages load nothing, run no scripts and cannot be framed
 * (S-09).
 */
export function pageFrame({ productName, accentColor }: Branding): Frame {
  const style = styleSheet(accentColor)
  const styleSource = `'sha256-${hash('sha256', style, 'base64')}'`
  const initial = [...productName][0]?.toUpperCase() ?? ''
  return (title, body, { targets = [], isWide = false } = {}) => {
    const { markup } = html`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${title} · ${productName}</title>
<style>${{ markup: style }}</style>
</head>
<body>
<main${isWide && html` class="wide"`}>
<p class="brand"><span aria-hidden="true">${initial}</span>${productName}</p>
<h1>${title}</h1>
${body}
</main>
</body>
</html>
`
    const forms = ["'self'", ...new Set(targets.map(formSource))].join(' ')
    const policy = `default-src 'none'; style-src ${styleSource}; form-action ${forms}; base-uri 'none'; frame-ancestors 'none'`
    return { html: markup, policy }
  }
}

/**
 * Returns the `form-action` source for a URL. Chromium also applies `form-action` to redirects after a form submission,
 * so without the client's URL the user could not return to the client. Falls back to the scheme if the host is not
 * valid in a source. The result never contains characters that could end the directive.
 */
export function formSource(address: string): string {
  const { protocol, origin, hostname } = new URL(address)
  return origin !== 'null' && /^[a-z0-9.-]+$/.test(hostname) ? origin : protocol
}
