import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { promisify } from 'node:util'
import { Script } from 'node:vm'
import { createGunzip, gzip } from 'node:zlib'
import type { FastifyPluginAsync, FastifyReply } from 'fastify'
import { Type } from 'typebox'
import { acceptsCoding, codedTag } from '../http/headers/content-encoding.ts'
import { escapeHtml } from '../http/pages/html.ts'
import { type DocsStart, startScriptOf } from './docs-start.ts'

const about = (operationId: string, summary: string, type: string) => ({
  operationId,
  summary,
  tags: ['meta'],
  response: { 200: { description: 'OK', content: { [type]: { schema: Type.String() } } } },
})

const script = 'text/javascript; charset=utf-8'
const page = about('readDocs', 'This document as an interactive page', 'text/html')
const start = about('readDocsStart', 'The script that initializes the page', 'text/javascript')
const reference = about('readDocsReference', 'The script of the page', 'text/javascript')

/**
 * Serves GET /docs, the interactive reference for the OpenAPI documents, entirely from this origin. The CSP blocks
 * requests to any other origin, so a token entered on the page cannot leak to a third party.
 */
export const docs: FastifyPluginAsync<DocsStart> = async (app, options) => {
  const [html, startScript] = [pageOf(options), startScriptOf(options)]
  const config = { scope: 'public', cache: 'public' } as const
  const pageConfig = { ...config, headers: ['Content-Security-Policy'] } as const
  app.get('/docs', { config: pageConfig, schema: page }, (_request, reply) =>
    reply.type('text/html; charset=utf-8').header('content-security-policy', policy).send(html),
  )
  app.get('/docs/start.js', { config, schema: start }, (_request, reply) => reply.type(script).send(startScript))

  let packing: Promise<Packed> | undefined
  const fileConfig = { ...config, headers: ['Vary'] } as const
  app.get('/docs/reference.js', { config: fileConfig, schema: reference }, async ({ headers }, reply) => {
    packing ??= packedReference()
    return sendPacked(await packing, headers['accept-encoding'] as string | undefined, headers['if-none-match'], reply)
  })
}

/**
 * Sends the script, which is 4 MB long and is compressed only once. For clients that do not accept gzip, decompresses
 * the script on the fly (RFC 9110 §12.5.3).
 */
function sendPacked(packed: Packed, codings: string | undefined, known: string | undefined, reply: FastifyReply) {
  const isPacked = acceptsCoding(codings, 'gzip')
  const etag = isPacked ? codedTag(packed.etag, 'gzip') : packed.etag
  reply.headers({ etag, vary: 'Accept-Encoding' })
  // An entity tag includes its quotes, so a substring match always matches the whole tag.
  if (known !== undefined && (known.trim() === '*' || known.includes(etag))) return reply.code(304).send()
  reply.type(script)
  return isPacked ? reply.header('content-encoding', 'gzip').send(packed.bytes) : reply.send(packed.unpack())
}

/**
 * Inline styles are allowed, because the API reference adds styles to the page. This is safe: the page contains no
 * untrusted text.
 */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'unsafe-inline'",
  "img-src 'self' data:",
  "font-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

const pageOf = ({ documents }: DocsStart) => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${titleOf(documents)}</title>
<link rel="icon" href="data:,">
</head>
<body>
<noscript>
<h1>${titleOf(documents)}</h1>
<p>This page requires JavaScript. The same reference is available as OpenAPI documents:
${Object.keys(documents)
  .map((path) => `<a href="${path}">${path}</a>`)
  .join(', ')}</p>
</noscript>
<div id="reference"></div>
<script src="/docs/reference.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
`

const titleOf = (documents: DocsStart['documents']) =>
  escapeHtml(`${Object.values(documents)[0]?.title ?? ''} API reference`.trim())

/** A gzipped script. */
export interface Packed {
  bytes: Buffer
  /** The strong tag for the uncompressed script. */
  etag: string
  unpack: () => Readable
}

const pack = promisify(gzip)

/**
 * Extracts the API reference script from its package, which exports the script as one string. Reads the package as
 * text, because importing it would keep 4 MB of source in memory for the lifetime of the process.
 */
export async function packedReference(): Promise<Packed> {
  const source = await readFile(new URL(import.meta.resolve('@scalar/fastify-api-reference')), 'utf8')
  const literal = /^var standalone_default = (".*");$/m.exec(source)?.[1]
  // The script is a JavaScript string literal, which allows more syntax than JSON; evaluating the literal runs no code.
  if (literal === undefined)
    throw new Error('The API reference package does not contain its script in the expected form')
  const script = new Script(literal).runInThisContext() as string
  const bytes = await pack(script)
  const digest = createHash('sha256').update(script).digest('base64url').slice(0, 16)
  return { bytes, etag: `"${digest}"`, unpack: () => Readable.from([bytes]).pipe(createGunzip()) }
}
