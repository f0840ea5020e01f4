import { pipeline, Readable } from 'node:stream'
import { pipeline as piped } from 'node:stream/promises'
import { createGunzip, createGzip } from 'node:zlib'
import type { Sealer } from '../storage/encryption.ts'
import type { AuditArchive, AuditRow } from '../storage/tables/administration.ts'
import { type Anchor, type ArchiveStore, archiveDigest } from './archives.ts'
import { auditView, chainHash } from './chain.ts'

/** Thrown if an archive was altered or damaged: an entry, the archive's record in the database, or the file. */
export class ArchiveAltered extends Error {
  override name = 'ArchiveAltered'
}

const linesPerChunk = 200
/** The maximum length of a line: more than any entry needs, but too little for a damaged file to exhaust the memory. */
const maxLineCharacters = 1_048_576

/** Writes entries as compressed NDJSON, in the format of `GET /api/audit`. Leaves nothing behind if it fails. */
export async function writeArchive(store: ArchiveStore, key: string, entries: AsyncIterable<AuditRow>) {
  await store.abandon(key)
  const writer = await store.create(key)
  try {
    await piped(Readable.from(chunksOf(entries)), createGzip(), async (chunks) => {
      for await (const chunk of chunks) await writer.write(chunk as Uint8Array)
    })
    return await writer.finish()
  } catch (error) {
    await writer.discard()
    throw error
  }
}

async function* chunksOf(entries: AsyncIterable<AuditRow>): AsyncIterable<string> {
  let lines: string[] = []
  for await (const row of entries) {
    lines.push(`${JSON.stringify(auditView(row))}\n`)
    if (lines.length < linesPerChunk) continue
    yield lines.join('')
    lines = []
  }
  yield lines.join('')
}

/**
 * Reads the entries of an archive and verifies their part of the chain. Throws `ArchiveAltered` if the record of the
 * archive was altered, the file is damaged, or an entry was altered or is missing. By then, the preceding entries have
 * been yielded.
 */
export async function* archivedEntries(
  store: Pick<ArchiveStore, 'open'>,
  sealer: Pick<Sealer, 'digest'>,
  archive: AuditArchive,
): AsyncIterable<AuditRow> {
  const { key, firstSequence, lastSequence, previousHash, lastHash } = archive
  if (archive.digest !== archiveDigest(sealer, archive)) {
    throw new ArchiveAltered(`the record of ${key} in the database was altered`)
  }
  let position: Anchor = { sequence: firstSequence - 1, hash: previousHash }
  for await (const { hash, ...row } of entriesIn(store, key)) {
    const expected = position.sequence + 1
    if (row.sequence !== expected) throw new ArchiveAltered(`entry ${expected} in ${key} is missing`)
    if (hash !== chainHash(sealer, row, position.hash)) {
      throw new ArchiveAltered(`entry ${expected} in ${key} was altered`)
    }
    position = { sequence: expected, hash }
    yield { ...row, hash }
  }
  if (position.sequence !== lastSequence || position.hash !== lastHash) {
    throw new ArchiveAltered(`entry ${position.sequence + 1} in ${key} is missing`)
  }
}

/** Returns true for errors that mean the file is damaged: those of zlib, `JSON.parse` and this reader. */
const isDamage = (error: unknown) =>
  error instanceof SyntaxError || String((error as { code?: unknown }).code).startsWith('Z_')

async function* entriesIn(store: Pick<ArchiveStore, 'open'>, key: string): AsyncIterable<AuditRow> {
  const source = await store.open(key)
  const text = createGunzip().setEncoding('utf8')
  // `pipeline` destroys `text` with the error, so the loop below throws it.
  pipeline(source, text, () => {})
  let rest = ''
  try {
    for await (const chunk of text) {
      const lines = `${rest}${chunk}`.split('\n')
      rest = lines.pop() ?? ''
      if (rest.length > maxLineCharacters) throw new SyntaxError('a line is too long')
      for (const line of lines) yield rowIn(line)
    }
  } catch (error) {
    if (!isDamage(error)) throw error
    throw new ArchiveAltered(`${key} is damaged: ${(error as Error).message}`, { cause: error })
  } finally {
    source.destroy()
  }
}

/** Converts a line back to a row; the reverse of `auditView`. The hash check detects members with a wrong type. */
function rowIn(line: string): AuditRow {
  const entry = JSON.parse(line) as Partial<AuditRow> | null
  const { sequence = 0, at = '', event = '', hash = '', details } = entry ?? {}
  const { clientId = null, subject = null, target = null, address = null, requestId = null } = entry ?? {}
  const detailsText = details === undefined ? null : JSON.stringify(details)
  return { sequence, at, event, clientId, subject, target, address, requestId, details: detailsText, hash }
}
