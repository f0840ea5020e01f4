import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { promisify } from 'node:util'
import { Script } from 'node:vm'
import { createGunzip, gzip } from 'node:zlib'

/** A script, kept as gzip. */
export interface Packed {
  bytes: Buffer
  /** Strong, of the plain form. */
  etag: string
  unpack: () => Readable
}

const pack = promisify(gzip)

/**
 * The script of the API reference, out of the package that carries it as one string. The package is read and not
 * imported: an import would keep four megabytes of source in memory for as long as the process lives.
 */
export async function packedReference(): Promise<Packed> {
  const source = await readFile(new URL(import.meta.resolve('@scalar/fastify-api-reference')), 'utf8')
  const literal = /^var standalone_default = (".*");$/m.exec(source)?.[1]
  // A string literal of JavaScript, which is more than one of JSON; evaluating it runs nothing.
  if (literal === undefined) throw new Error('The API reference package does not carry its script where it did')
  const script = new Script(literal).runInThisContext() as string
  const bytes = await pack(script)
  const digest = createHash('sha256').update(script).digest('base64url').slice(0, 16)
  return { bytes, etag: `"${digest}"`, unpack: () => Readable.from([bytes]).pipe(createGunzip()) }
}
