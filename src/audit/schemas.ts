import { Type } from 'typebox'
import { CursorText, Fields, PageLimit } from '../http/pagination.ts'
import { documentedRules, partialResponse } from '../http/partial-schema.ts'
import { auditEvents } from './chain.ts'

const Instant = Type.String({ format: 'date-time' })

/** One entry of the audit log. */
export const AuditEntryView = partialResponse(
  Type.Object({
    sequence: Type.Integer({ description: 'Counts from 1 without a gap' }),
    at: Instant,
    event: Type.String({ enum: [...auditEvents], examples: ['client.created'] }),
    clientId: Type.Optional(Type.String({ description: 'Whose token or secret was used' })),
    subject: Type.Optional(Type.String({ description: 'In whose name' })),
    target: Type.Optional(Type.String({ description: 'What was changed, or the route that was refused' })),
    address: Type.Optional(Type.String({ description: 'Where the request came from' })),
    requestId: Type.Optional(Type.String()),
    details: Type.Optional(Type.Record(Type.String(), Type.Unknown(), { examples: [{ name: 'Partner' }] })),
    hash: Type.String({ description: 'Covers this entry and the hash before it' }),
  }),
)

const equal = (what: string, example: string) =>
  Type.Optional(Type.String({ maxLength: 300, description: `Only entries with this ${what}`, examples: [example] }))
const bound = (description: string, example: string) =>
  Type.Optional(
    Type.String({ maxLength: 40, description, examples: [example], ...documentedRules({ format: 'date-time' }) }),
  )

/** The query of a list of entries. */
export const AuditQuery = Type.Object({
  ...{ limit: PageLimit, cursor: CursorText, fields: Fields },
  event: equal('event', 'client.created'),
  clientId: equal('client', 'partner'),
  subject: equal('subject', '42'),
  target: equal('target', 'partner'),
  from: bound('Only entries of this instant or later', '2026-03-01T12:00:00.000Z'),
  to: bound('Only entries before this instant', '2026-03-02T12:00:00.000Z'),
})
