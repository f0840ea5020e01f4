import { readdir, readFile } from 'node:fs/promises'
import { extname } from 'node:path'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { FastifyPluginAsync, FastifyReply } from 'fastify'
import { Type } from 'typebox'
import type { Definition } from '../definition/service.ts'
import { acceptsCoding } from '../http/headers/content-encoding.ts'
import { Problem } from '../http/problems/problem.ts'
import type { VersionStatus } from '../versioning/version-of-path.ts'

export interface ConsoleClient {
  /** The console's OAuth client id; null if it is not available. */
  consoleClientId?: string | null
}

export interface ConsoleOptions extends ConsoleClient {
  /** Returns random bytes, for the nonce of each page. */
  random: (size: number) => Uint8Array
  definition: Pick<Definition, 'versions'>
  lifecycles: readonly VersionStatus[]
}

/** The folder that `npm run build` writes. */
const built = new URL('../../console/dist/', import.meta.url)
/** Placeholders that the build inserts for the nonce and the path prefix. */
const noncePlaceholder = /__NONCE__/g
const prefixPlaceholder = '__API_PREFIX__'
const nonceBytes = 18

const types: Readonly<Record<string, string>> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
}

const noClient =
  'Nobody can log in to the console: its client id `console` belongs to another client, or was revoked; ' +
  'the section "The console" of docs/operations.md describes what to do'

const about = (operationId: string, summary: string, type: string) => ({
  operationId,
  summary,
  tags: ['meta'],
  response: { 200: { description: 'OK', content: { [type]: { schema: Type.String() } } } },
})

/**
 * Serves the console at `/console`: the same page for every path, and its files, whose names contain a content hash.
 * The page uses only the public API, in the newest active version. Responds with 404 if there is no build or no client.
 */
export const consolePages: FastifyPluginAsync<ConsoleOptions> = async (app, options) => {
  const { random, definition, lifecycles, consoleClientId } = options
  const files = await listed()
  const template = files.size > 0 ? await readFile(new URL('index.html', built), 'utf8') : null
  const page = template?.replace(prefixPlaceholder, newestPrefix(definition, lifecycles)) ?? null
  const schema = about('readConsole', 'The console, as a page for browsers', 'text/html')
  const config = { scope: 'public', cache: 'none', headers: ['Content-Security-Policy'] } as const
  const sendPage = (reply: FastifyReply) => {
    if (page === null) throw new Problem('RESOURCE_NOT_FOUND', 'The console is not built; run `npm run build`')
    if (consoleClientId === null) throw new Problem('RESOURCE_NOT_FOUND', noClient)
    const nonce = Buffer.from(random(nonceBytes)).toString('base64')
    const html = page.replace(noncePlaceholder, nonce)
    return reply.type('text/html; charset=utf-8').header('content-security-policy', policyWith(nonce)).send(html)
  }
  app.get('/console', { config, schema }, (_request, reply) => sendPage(reply))
  app.get('/console/*', { config, schema: { ...schema, operationId: 'readConsolePage' } }, (_, reply) =>
    sendPage(reply),
  )

  const file = about('readConsoleFile', 'A file of the console', 'text/javascript')
  const fileConfig = { scope: 'public', cache: 'public', produces: Object.values(types) } as const
  const params = Type.Object({ file: Type.String() })
  app.get('/console/assets/:file', { config: fileConfig, schema: { ...file, params } }, async (request, reply) => {
    const { file: name } = request.params as { file: string }
    const found = files.get(name)
    if (found === undefined) throw new Problem('RESOURCE_NOT_FOUND', `The console has no file ${JSON.stringify(name)}`)
    const { bytes, packed } = await found()
    const isPacked = acceptsCoding(request.headers['accept-encoding'] as string | undefined, 'gzip')
    reply.headers({ 'cache-control': 'public, max-age=31536000, immutable', vary: 'Accept-Encoding' })
    if (isPacked) reply.header('content-encoding', 'gzip')
    return reply.type(types[extname(name)] as string).send(isPacked ? packed : bytes)
  })
}

/** Returns the path prefix of the newest active version, such as `/v2`. The prefix of v1 is empty. */
function newestPrefix({ versions }: ConsoleOptions['definition'], lifecycles: readonly VersionStatus[]): string {
  const newest = lifecycles.findLast(({ version, status }) => status === 'active' && versions[version])
  return versions[newest?.version ?? '']?.prefixes[0] ?? ''
}

interface Asset {
  bytes: Buffer
  packed: Buffer
}

const pack = promisify(gzip)

/** Lists the files of the build, by name. Each is read and compressed once, on its first request. */
async function listed(): Promise<ReadonlyMap<string, () => Promise<Asset>>> {
  const folder = new URL('assets/', built)
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw error
  })
  const read = async (name: string): Promise<Asset> => {
    const bytes = await readFile(new URL(name, folder))
    return { bytes, packed: await pack(bytes, { level: 9 }) }
  }
  return new Map(
    names
      .filter((name) => extname(name) in types)
      .map((name) => {
        let asset: Promise<Asset> | undefined
        return [name, () => (asset ??= read(name))]
      }),
  )
}

/**
 * Returns a Content-Security-Policy that allows only this origin, and images in `data:` and `blob:` URLs. The nonce
 * permits the style elements that the components create.
 */
const policyWith = (nonce: string) =>
  [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'self' 'nonce-${nonce}'`,
    "img-src 'self' data: blob:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ')
