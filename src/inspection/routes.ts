import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type TSchema, Type } from 'typebox'
import { HealthView } from '../health/route.ts'
import { documentedRules } from '../http/partial-schema.ts'
import { checkPostPreconditions } from '../http/policies/conditional.ts'
import { Problem } from '../http/problems/problem.ts'
import { idempotentWrite } from '../idempotency/idempotent-write.ts'
import type { Database, Queryable } from '../storage/database.ts'
import type { Inspection } from './inspection.ts'
import type { AuditInput, Inspections } from './inspections.ts'

export interface InspectionRoutesOptions {
  db: Database
  inspections: Inspections
}

type App = Parameters<FastifyPluginAsyncTypebox>[0]

const healthPath = '/api/health/examination'
const auditPath = '/api/audit/verification'
const tags = ['administration']
const problems = ['CHECK_IN_PROGRESS'] as const

const Instant = (description: string) => Type.Optional(Type.String({ format: 'date-time', description }))

/** Returns the schema of a check's last run. `outcome` contains the members that only a completed run has. */
const RunView = (outcome: Record<string, TSchema>) =>
  Type.Object({
    status: Type.String({
      enum: ['never', 'running', 'completed', 'failed'],
      description: '`completed`: the check ran, whatever its result. `failed`: it could not run',
      examples: ['completed'],
    }),
    node: Type.Optional(Type.String({ description: 'The node that runs it', examples: ['node-a 4242'] })),
    startedAt: Instant('When it began'),
    finishedAt: Instant('When it ended'),
    error: Type.Optional(Type.String({ description: 'Why it could not run', examples: ['The disk is full'] })),
    ...outcome,
  })

const Anchor = Type.Object({
  sequence: Type.Integer({ minimum: 1, examples: [1_204] }),
  hash: Type.String({ examples: ['2esZL-x4VV3lPPC6wmZJ0xEp7LF-7jmAZ1lcfd2S94A'] }),
})

const AuditResultView = Type.Object({
  intact: Type.Boolean({ description: 'Whether no entry was altered or removed', examples: [true] }),
  entries: Type.Optional(
    Type.Integer({ minimum: 0, description: 'The number of the newest entry', examples: [1_204] }),
  ),
  checkpoint: Type.Optional(Type.Object(Anchor.properties, { description: 'The newest entry. Store it elsewhere' })),
  archives: Type.Optional(Type.Integer({ minimum: 0, description: 'Verified archives', examples: [2] })),
  altered: Type.Optional(
    Type.Object(
      {
        sequence: Type.Optional(Type.Integer({ minimum: 0, examples: [17] })),
        reason: Type.String({ examples: ['was altered'] }),
      },
      { description: 'The first entry that was altered or is missing' },
    ),
  ),
})

const AuditBody = Type.Object(
  {
    expect: Type.Optional(
      Type.String({
        description: 'The checkpoint of an earlier verification, which must still exist, as `sequence:hash`',
        examples: ['1204:2esZL-x4VV3lPPC6wmZJ0xEp7LF-7jmAZ1lcfd2S94A'],
        ...documentedRules({ pattern: '^[1-9][0-9]{0,14}:[A-Za-z0-9_-]{43}$' }),
      }),
    ),
    archives: Type.Optional(Type.Boolean({ description: 'Also verify the archived months', examples: [true] })),
  },
  { additionalProperties: false },
)

/** Claims an inspection in the transaction that stores the response, and starts the inspection after the commit. */
async function accept<Input, Result>(
  { db, check, input, path }: { db: Database; check: Inspection<Input, Result>; input: Input; path: string },
  request: FastifyRequest,
  reply: FastifyReply,
) {
  checkPostPreconditions(request)
  // Stays undefined if a stored response is replayed.
  let claim: Awaited<ReturnType<typeof check.claim>> | undefined
  const body = await idempotentWrite(request, reply, db.write, async (tx: Queryable) => {
    claim = await check.claim(tx)
    return { status: 202, headers: { location: path }, body: check.view(claim) }
  })
  if (claim !== undefined) check.start(claim, input)
  return body
}

/** Routes that start a full data check in a separate thread, and return the result of the last run. */
export const inspectionRoutes: FastifyPluginAsyncTypebox<InspectionRoutesOptions> = async (app, options) => {
  healthRoutes(app, options)
  auditRoutes(app, options)
}

function healthRoutes(app: App, { db, inspections: { health } }: InspectionRoutesOptions): void {
  const View = RunView({ report: Type.Optional(HealthView) })
  const starting = {
    tags,
    operationId: 'startHealthExamination',
    summary: 'Run all checks, including those that read all data',
  }
  const config = { scope: 'admin', cache: 'none', problems } as const
  app.post(healthPath, { config, schema: { ...starting, response: { 202: View } } }, (request, reply) =>
    accept({ db, check: health, input: null, path: app.prefix + healthPath }, request, reply),
  )
  const reading = {
    tags,
    operationId: 'readHealthExamination',
    summary: 'Read the result of the last run of all checks',
  }
  const reads = { scope: 'admin', cache: 'none' } as const
  app.get(healthPath, { config: reads, schema: { ...reading, response: { 200: View } } }, async () => {
    const { result, ...state } = await health.read()
    return { ...state, ...(result && { report: result }) }
  })
}

function auditRoutes(app: App, { db, inspections: { audit } }: InspectionRoutesOptions): void {
  const View = RunView({ result: Type.Optional(AuditResultView) })
  const starting = { tags, operationId: 'startAuditVerification', summary: 'Verify the hash chain of the audit log' }
  const scopes = { scope: 'audit:read', orScope: 'admin', cache: 'none' } as const
  const config = { ...scopes, bodyOptional: true, problems } as const
  const schema = { ...starting, body: AuditBody, response: { 202: View } }
  app.post(auditPath, { config, schema }, (request, reply) => {
    const { expect, archives = false } = request.body
    const input: AuditInput = { archives, ...(expect !== undefined && { expect: anchorOf(expect) }) }
    return accept({ db, check: audit, input, path: app.prefix + auditPath }, request, reply)
  })
  const reading = { tags, operationId: 'readAuditVerification', summary: 'Read the last verification of the audit log' }
  app.get(auditPath, { config: scopes, schema: { ...reading, response: { 200: View } } }, () => audit.read())
}

/** Parses a checkpoint such as `1204:2esZL…`. Throws VALIDATION_ERROR if it is malformed. */
function anchorOf(text: string): { sequence: number; hash: string } {
  const [, sequence, hash] = /^([1-9]\d{0,14}):([\w-]{43})$/.exec(text) ?? []
  if (hash !== undefined) return { sequence: Number(sequence), hash }
  const errors = [{ field: 'expect', message: 'must be a sequence and a hash, such as 1204:2esZL…' }]
  throw new Problem('VALIDATION_ERROR', 'The checkpoint is not valid', { errors })
}
