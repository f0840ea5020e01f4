import { createHash, type Hash } from 'node:crypto'
import { Problem } from '../problems/problem.ts'

/** The hash algorithms of RFC 9530, section 5, except the insecure ones. */
const algorithms = { 'sha-256': 'sha256', 'sha-512': 'sha512' } as const
type Algorithm = keyof typeof algorithms
const digestBytes: Record<Algorithm, number> = { 'sha-256': 32, 'sha-512': 64 }

/** A member of a digest header: a key with a byte sequence (RFC 8941, sections 3.2 and 3.3.5). */
const member = /^([a-z*][a-z0-9_.*-]*)=:([A-Za-z0-9+/]*={0,2}):(?:;.*)?$/

interface SentDigest {
  header: string
  algorithm: Algorithm
  digest: Buffer
}

/** Returns the digests in a header; ignores unknown algorithms. Throws INVALID_INPUT if the header is malformed. */
function digestsIn(header: string, value: string): SentDigest[] {
  return value.split(',').flatMap((text) => {
    const [, algorithm = '', encoded = ''] = member.exec(text.trim()) ?? []
    if (algorithm === '') throw new Problem('INVALID_INPUT', `${header} must be such as sha-256=:…:, in base64`)
    if (!Object.hasOwn(algorithms, algorithm)) return []
    const digest = Buffer.from(encoded, 'base64')
    const known = algorithm as Algorithm
    if (digest.length !== digestBytes[known])
      throw new Problem('INVALID_INPUT', `${header}: a ${algorithm} digest has ${digestBytes[known]} bytes`)
    return [{ header, algorithm: known, digest }]
  })
}

/** Checks a body against the digests in the request headers. */
export interface DigestCheck {
  update: (chunk: Buffer) => void
  /** Throws VALIDATION_ERROR if the content does not have these digests. */
  end: () => void
}

/**
 * Returns a check of a request's body against the headers Content-Digest and Repr-Digest (RFC 9530). Both mean the same
 * for a body without a content coding. Throws INVALID_INPUT if a header is malformed.
 */
export function digestCheck(headers: Readonly<Record<string, string | string[] | undefined>>): DigestCheck {
  const sent = ['Content-Digest', 'Repr-Digest'].flatMap((header) => {
    const value = headers[header.toLowerCase()]
    return value === undefined ? [] : digestsIn(header, String(value))
  })
  const hashes = new Map<Algorithm, Hash>(
    sent.map(({ algorithm }) => [algorithm, createHash(algorithms[algorithm])] as const),
  )
  return {
    update: (chunk) => {
      for (const hash of hashes.values()) hash.update(chunk)
    },
    end: () => {
      const actual = new Map([...hashes].map(([algorithm, hash]) => [algorithm, hash.digest()] as const))
      for (const { header, algorithm, digest } of sent) {
        if (actual.get(algorithm)?.equals(digest)) continue
        throw new Problem('VALIDATION_ERROR', `The content does not have the ${algorithm} digest in ${header}`)
      }
    },
  }
}
