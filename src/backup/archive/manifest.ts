import { type Static, Type } from 'typebox'
import { Compile } from 'typebox/compile'
import { BackupBroken, BackupRefused } from '../errors.ts'

/** The version of the archive's layout. Archives with a newer version are refused. */
export const archiveFormat = 1

export const headName = 'backup.json'
export const manifestName = 'manifest.json'

const Count = Type.Integer({ minimum: 0 })

/** The first entry of an archive. It describes the backup, so that a restore can be refused before the rest is read. */
const headFields = {
  format: Type.Literal(archiveFormat),
  /** The release that made the backup. */
  plinth: Type.String(),
  engine: Type.Union([Type.Literal('sqlite'), Type.Literal('postgres')]),
  /** The backup contains every row that was acknowledged before this instant. */
  takenAt: Type.String(),
  /** The migrations of the database. */
  migrations: Type.Array(Type.String()),
  /** The tables of declared resources. */
  resources: Type.Array(Type.String()),
  /** The database schema that contains the tables, and the major release of `pg_dump`; null for SQLite. */
  postgres: Type.Union([Type.Null(), Type.Object({ schema: Type.String(), dumpMajor: Count })]),
  /** Whether the archive contains the master key, and the key's fingerprint. Null if the service had no master key. */
  masterKey: Type.Union([Type.Null(), Type.Object({ isIncluded: Type.Boolean(), fingerprint: Type.String() })]),
}
const Head = Type.Object(headFields)
export type Head = Static<typeof Head>

const Entry = Type.Object({ name: Type.String(), sizeBytes: Count, sha256: Type.String() })
/** A file in an archive; the digest is hexadecimal. */
export type Entry = Static<typeof Entry>

/** The last entry of an archive: the head, and the digests of all other entries. */
const Manifest = Type.Object({
  ...headFields,
  /** The number of rows in each table. */
  tables: Type.Record(Type.String(), Count),
  entries: Type.Array(Entry),
  /** The keys of results that the database lists but the store does not have. */
  missingResults: Type.Array(Type.String()),
  /** The keys of results whose size or digest differs from that in the database. */
  damagedResults: Type.Array(Type.String()),
})
export type Manifest = Static<typeof Manifest>

const [headCheck, manifestCheck] = [Compile(Head), Compile(Manifest)]

/**
 * Parses the first entry. Throws `BackupRefused` if a later release made the layout, and `BackupBroken` if the entry is
 * otherwise invalid.
 */
export function readHead(text: string): Head {
  const head = parsed(text)
  const { format } = Object(head) as { format?: unknown }
  if (typeof format === 'number' && format > archiveFormat) {
    throw new BackupRefused(`the backup has the format ${format}, which a later release made; use that release`)
  }
  if (!headCheck.Check(head)) throw new BackupBroken(`${headName} is not valid`)
  return head
}

/** Parses the manifest. Throws `BackupBroken` if it is not valid. */
export function readManifest(text: string): Manifest {
  const manifest = parsed(text)
  if (!manifestCheck.Check(manifest)) throw new BackupBroken(`${manifestName} is not valid`)
  return manifest
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Throws `BackupBroken`, naming the first entry that is missing, unknown or different. */
export function checkEntries({ entries }: Manifest, found: readonly Entry[]): void {
  const byName = new Map(found.map((entry) => [entry.name, entry]))
  for (const { name, sizeBytes, sha256 } of entries) {
    const entry = byName.get(name)
    if (!entry) throw new BackupBroken(`${name} is missing`)
    if (entry.sizeBytes !== sizeBytes || entry.sha256 !== sha256) throw new BackupBroken(`${name} was altered`)
    byName.delete(name)
  }
  const [unknown] = byName.keys()
  if (unknown !== undefined) throw new BackupBroken(`${unknown} is not in the manifest`)
}
