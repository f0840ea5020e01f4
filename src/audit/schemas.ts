import { Type } from 'typebox'
import { CursorText, Fields, PageLimit } from '../http/pagination.ts'
import { documentedRules, partialSchema } from '../http/partial-schema.ts'
import { auditEvents } from './chain.ts'

const Instant = Type.String({ format: 'date-time' })

/** One audit log entry. */
export const AuditEntryView = partialSchema(
  Type.Object({
    sequence: Type.Integer({ description: 'Number of the entry, from 1 without gaps' }),
    at: Instant,
    event: Type.String({ enum: [...auditEvents], examples: ['client.created'] }),
    clientId: Type.Optional(Type.String({ description: 'The client whose token or secret was used' })),
    subject: Type.Optional(
      Type.String({ description: 'Who acted: the id of a user or client, `service` or `command line`' }),
    ),
    target: Type.Optional(
      Type.String({ description: 'The id of the changed object, or the route of the rejected request' }),
    ),
    address: Type.Optional(Type.String({ description: 'The client address of the request' })),
    requestId: Type.Optional(Type.String()),
    details: Type.Optional(Type.Record(Type.String(), Type.Unknown(), { examples: [{ name: 'Partner' }] })),
    hash: Type.String({ description: 'Keyed hash of this entry and the previous hash' }),
  }),
)

const hash = '2esZL-x4VV3lPPC6wmZJ0xEp7LF-7jmAZ1lcfd2S94A'

/** An archived month of the audit log. */
export const AuditArchiveView = partialSchema(
  Type.Object({
    month: Type.String({ description: 'Year and month in UTC', examples: ['2026-01'] }),
    key: Type.String({
      description: 'The name of the file in the result store',
      examples: ['audit-2026-01-2esZL-x4.ndjson.gz'],
    }),
    firstSequence: Type.Integer({ minimum: 1, description: 'Number of the first entry', examples: [1] }),
    lastSequence: Type.Integer({ minimum: 1, description: 'Number of the last entry', examples: [1204] }),
    previousHash: Type.String({ description: 'Hash of the entry before the first one; empty at the start of the log' }),
    lastHash: Type.String({ description: 'Hash of the last entry', examples: [hash] }),
    sizeBytes: Type.Integer({ minimum: 1, description: 'Size of the file', examples: [48213] }),
    sha256: Type.String({
      description: 'SHA-256 of the file in base64',
      examples: ['n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg='],
    }),
    archivedAt: Instant,
  }),
)

const equal = (what: string, example: string) =>
  Type.Optional(Type.String({ maxLength: 300, description: `Only entries with this ${what}`, examples: [example] }))
const bound = (description: string, example: string) =>
  Type.Optional(
    Type.String({ maxLength: 40, description, examples: [example], ...documentedRules({ format: 'date-time' }) }),
  )

const filters = {
  event: equal('event', 'client.created'),
  clientId: equal('client', 'partner'),
  subject: equal('subject', '42'),
  target: equal('target', 'partner'),
  from: bound('Only entries at or after this instant', '2026-03-01T12:00:00.000Z'),
  to: bound('Only entries before this instant', '2026-03-02T12:00:00.000Z'),
}

/** Query parameters for an export of the audit log. */
export const AuditFilters = Type.Object(filters)

/** Query parameters for the audit log. */
export const AuditQuery = Type.Object({ limit: PageLimit, cursor: CursorText, fields: Fields, ...filters })
