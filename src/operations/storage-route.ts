import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { Problem } from '../http/problems/problem.ts'
import type { StorageReport } from './storage.ts'

const Bytes = (description: string, example: number) => Type.Integer({ minimum: 0, description, examples: [example] })

const TableView = Type.Object({
  table: Type.String({ examples: ['deliveries'] }),
  rows: Bytes('An estimate, unless the table is small', 120_000),
  bytes: Bytes('With its indexes; an estimate for large tables on SQLite', 52_428_800),
})

const FilesView = Type.Object({
  name: Type.String({
    enum: ['database', 'write-ahead log', 'text index', 'results', 'backups'],
    examples: ['results'],
  }),
  place: Type.String({ description: 'A path, or the URL of a bucket', examples: ['/var/lib/plinth/results'] }),
  bytes: Type.Optional(Bytes('Absent for buckets', 104_857_600)),
  files: Type.Optional(Bytes('The number of files in a folder', 42)),
  complete: Type.Optional(
    Type.Boolean({ description: 'False if the folder has more than 50,000 files, of which only these were measured' }),
  ),
})

const DiskView = Type.Object({
  contains: Type.Array(Type.String(), {
    description: 'What is on this file system: `data`, `database`, `results`, `backups`',
    examples: [['data', 'database', 'results']],
  }),
  freeBytes: Bytes('Free space', 21_474_836_480),
  totalBytes: Bytes('Size of the file system', 107_374_182_400),
})

const StorageView = Type.Object({
  measuredAt: Type.String({ format: 'date-time', description: 'When the files were measured, at most a minute ago' }),
  engine: Type.String({ enum: ['sqlite', 'postgres'], examples: ['sqlite'] }),
  tableBytes: Type.Optional(Bytes('The size of all tables; absent while they are being measured', 73_400_320)),
  tables: Type.Optional(
    Type.Array(TableView, { description: 'The tables, largest first, as of five minutes ago at most' }),
  ),
  files: Type.Array(FilesView, { description: 'Files and folders of this node. A PostgreSQL database has none here' }),
  disks: Type.Array(DiskView, { description: 'The file systems of this node that store data' }),
})

export interface StorageRouteOptions {
  /** Returns a report that may be up to a minute old; null if measuring fails or takes too long. */
  readStorage: () => Promise<StorageReport | null>
}

/** Serves GET /api/storage: the disk usage of this node. */
export const storageRoute: FastifyPluginAsyncTypebox<StorageRouteOptions> = async (app, { readStorage }) => {
  const about = { tags: ['administration'], operationId: 'readStorage', summary: 'Measure tables, files and disks' }
  const schema = { ...about, response: { 200: StorageView } }
  const config = { scope: 'admin', cache: 'none' } as const
  app.get('/api/storage', { config, schema }, async () => {
    const report = await readStorage()
    if (report !== null) return report
    throw new Problem('SERVICE_UNAVAILABLE', 'Measuring takes too long', { headers: { 'retry-after': '10' } })
  })
}
