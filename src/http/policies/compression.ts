import { type BrotliOptions, brotliCompress, brotliCompressSync, constants, gzip, gzipSync } from 'node:zlib'
import type { FastifyReply } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { type ContentCoding, codedTag, type NegotiatedCoding, negotiateCoding } from '../headers/content-encoding.ts'

type Compressed = (error: Error | null, content: Buffer) => void

/** The minimum length for compression. Smaller responses fit into one or two packets even when uncompressed. */
const minBytes = 1_024
/** The maximum length for synchronous compression, which costs less here than handing the work to another thread. */
const maxSyncBytes = 16_384
const maxCachedChoices = 100

/**
 * Compresses cacheable text with the coding that Accept-Encoding prefers (RFC 9110 §12.5.3), and adds the coding to a
 * strong entity tag. Text shorter than 1 KiB is compressed only if Accept-Encoding excludes uncompressed content.
 * Uncacheable responses are not compressed: they may contain secrets, which the compressed length could reveal
 * (BREACH). Streams are not compressed. Neither is partial content, because its ranges refer to uncompressed bytes.
 */
export const compression = fastifyPlugin(
  async (app) => {
    const choose = choices()
    app.addHook('onSend', (request, reply, payload, done) => {
      const accepted = request.headers['accept-encoding']
      if (accepted === undefined || typeof payload !== 'string' || reply.statusCode !== 200) return done(null, payload)
      const { coding, identity } = choose(accepted)
      if (coding === null) return done(null, payload)
      const bytes = Buffer.byteLength(payload)
      if ((bytes < minBytes && identity) || !isCompressible(reply)) return done(null, payload)
      compress(payload, bytes, coding, (error, content) => {
        if (error) return done(error)
        label(reply, coding)
        done(null, content)
      })
    })
  },
  { name: 'compression', dependencies: ['conditional', 'caching'] },
)

/**
 * Returns a function that negotiates the coding. Caches the result for each Accept-Encoding value, because clients send
 * only a few different values.
 */
function choices(): (acceptEncoding: string) => NegotiatedCoding {
  const known = new Map<string, NegotiatedCoding>()
  return (acceptEncoding) => {
    const cached = known.get(acceptEncoding)
    if (cached !== undefined) return cached
    if (known.size >= maxCachedChoices) known.clear()
    const choice = negotiateCoding(acceptEncoding)
    known.set(acceptEncoding, choice)
    return choice
  }
}

/** Returns the longest body length, in bytes, that is never compressed; -1 if every body may be compressed. */
export function maxUncompressedBytes(acceptEncoding: string | undefined): number {
  const { coding, identity } = acceptEncoding === undefined ? plain : negotiateCoding(acceptEncoding)
  if (coding === null) return Number.POSITIVE_INFINITY
  return identity ? minBytes - 1 : -1
}

const plain: NegotiatedCoding = { coding: null, identity: true }

const isText = /^(text\/|application\/([a-z.-]+\+)?json\b)/
const isUntouchable = /\bno-(store|transform)\b/

function isCompressible(reply: FastifyReply): boolean {
  if (reply.hasHeader('content-encoding') || isUntouchable.test(`${reply.getHeader('cache-control')}`)) return false
  return isText.test(`${reply.getHeader('content-type')}`)
}

/** Uses quality 4 of 11, which is as fast as gzip and compresses better. */
const brotli = (bytes: number): BrotliOptions => ({
  params: { [constants.BROTLI_PARAM_QUALITY]: 4, [constants.BROTLI_PARAM_SIZE_HINT]: bytes },
})

function compress(text: string, bytes: number, coding: ContentCoding, compressed: Compressed): void {
  if (bytes <= maxSyncBytes) {
    compressed(null, coding === 'br' ? brotliCompressSync(text, brotli(bytes)) : gzipSync(text))
  } else if (coding === 'br') brotliCompress(text, brotli(bytes), compressed)
  else gzip(text, compressed)
}

function label(reply: FastifyReply, coding: ContentCoding): void {
  reply.header('content-encoding', coding).removeHeader('content-length')
  const etag = reply.getHeader('etag')
  if (typeof etag === 'string') reply.header('etag', codedTag(etag, coding))
}
