import type { FastifyPluginAsync, FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { type TSchema, Type } from 'typebox'
import { Check } from 'typebox/value'
import { authorOf, callerOf } from '../http/policies/authenticate.ts'
import { checkPostPreconditions, preconditionOf } from '../http/policies/conditional.ts'
import { Problem, type ProblemCode } from '../http/problems/problem.ts'
import { idempotentWrite, type WriteResponse } from '../idempotency/idempotent-write.ts'
import { capital } from '../openapi/schemas.ts'
import { assertStorable } from '../resources/access/enforce.ts'
import type { RowAccess } from '../resources/access/rules.ts'
import type { Collection, CollectionOptions, Served } from '../resources/declaration.ts'
import { idParams } from '../resources/id-types.ts'
import { representation } from '../resources/representation.ts'
import { servedResource } from '../resources/serve.ts'
import { withMemberNames } from '../resources/views/view-parts.ts'
import { type RowRequest, readableRow, throwUnmatched } from '../resources/writes/change.ts'
import type { WriteBy } from '../resources/writes/hooks.ts'
import { inUnit } from '../resources/writes/unit.ts'
import type { Queryable } from '../storage/database.ts'
import type { Action } from './action.ts'
import type { ServiceCode } from './author-code.ts'
import { CodeError } from './calls.ts'
import { foundRow } from './rows/row-calls.ts'

interface ActionRoutesOptions {
  /** The actions of the service. */
  actions: readonly Action[]
  /** The collection, or the view of it that this version serves. */
  one: Collection
  resource: CollectionOptions
  code: ServiceCode
}

/** Serves the actions of one collection. */
export const actionRoutes: FastifyPluginAsync<ActionRoutesOptions> = async (app, options) => {
  const { actions, one, resource, code } = options
  const { declaration } = one
  const own = actions.filter(({ of }) => of.path === declaration.path)
  if (own.length === 0) return
  const served = servedResource(declaration, resource, app.prefix)
  for (const action of own) app.route(actionRoute(action, served, code))
}

/** Returns an action's route; `served` is the action's collection or a view of it, as one version serves it. */
function actionRoute(action: Action, served: Served, code: ServiceCode): RouteOptions {
  const { of, name, isOfRow, input, output, summary } = action
  const { declaration, accessOf, relations } = served
  const isShown = isOfRow && output === undefined
  const response: Record<string, TSchema> = { 200: output ?? representation(declaration, undefined, relations) }
  const operationId = `${camelCase(name)}${capital(isOfRow ? of.noun : camelCase(of.name))}`
  const about = { tags: [of.name], operationId, summary }
  return {
    method: 'POST',
    url: `${of.path}${isOfRow ? '/:id' : ''}/${name}`,
    config: {
      ...({ scope: `${of.name}:write`, cache: 'none', bodyOptional: true } as const),
      ...(!isShown && { revised: false as const }),
      problems: problemsOf(action, declaration.access !== undefined),
      ...(isOfRow && { requestHeaders: ['If-Match', 'If-None-Match', 'If-Unmodified-Since'] as const }),
      ...(isShown && { minimal: true }),
      ...(isOfRow && accessOf && { checkReplay: readableReplay(served) }),
    },
    schema: { ...about, ...(isOfRow && { params: idParams(of.ids) }), ...(input && { body: input }), response },
    handler: (request, reply) =>
      isOfRow
        ? runOnRow(action, served, code, request as RowRequest, reply)
        : runOnCollection(action, served, code, request, reply),
  }
}

const camelCase = (name: string) => name.replace(/-([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())

const problemsOf = ({ isOfRow }: Action, isRestricted: boolean): ProblemCode[] => [
  ...(isOfRow ? (['PRECONDITION_FAILED', 'PRECONDITION_REQUIRED'] as const) : []),
  ...(isRestricted ? (['PERMISSION_DENIED'] as const) : []),
  ...(['STATE_CONFLICT', 'VALIDATION_ERROR'] as const),
]

/**
 * Returns the check that runs before a stored response is replayed: the caller must still have read access to the row.
 */
const readableReplay = (served: Served) => async (request: FastifyRequest) => {
  await readableRow(served, (request as RowRequest).params.id, await served.accessOf?.(callerOf(request)))
}

/**
 * Thrown if the row is missing, fails the precondition, or may not be written. `throwUnmatched` determines the
 * response.
 */
class Unmatched extends Error {}

async function runOnRow(action: Action, served: Served, code: ServiceCode, request: RowRequest, reply: FastifyReply) {
  const precondition = preconditionOf(request, served.requireIfMatch)
  const { id } = request.params
  const access = await served.accessOf?.(callerOf(request))
  const passing = access ? { ...precondition, passes: access.write } : precondition
  const { asService, served: own } = code.collectionOf(action)
  const { rows, db } = own
  const work = async (tx: Queryable, by: WriteBy): Promise<WriteResponse> => {
    const before = await foundRow(own, tx, id, { lock: true, precondition: passing })
    if (before === undefined) throw new Unmatched()
    const when = action.when === undefined ? undefined : await asService.test(action.when, by)
    if (when && !(await rows.passes(tx, id, when))) {
      const text = `The ${action.of.noun} ${id} does not allow ${action.name} in its present state`
      throw new Problem('STATE_CONFLICT', text)
    }
    const input = request.body ?? {}
    const run = () => code.run(action, tx, by, (context) => action.run(asService.shown(before, by), input, context))
    const result = await withMemberNames(served.declaration.view, run)
    return respond(action, served, request, { tx, access, result })
  }
  const unit = (tx: Queryable) => inUnit(tx, authorBy(served, request), (by) => work(tx, by))
  try {
    return await idempotentWrite(request, reply, db.write, unit)
  } catch (error) {
    if (error instanceof Unmatched) return throwUnmatched(served, id, access)
    throw error
  }
}

function runOnCollection(
  action: Action,
  served: Served,
  code: ServiceCode,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<object> {
  checkPostPreconditions(request)
  const run = async (tx: Queryable, by: WriteBy): Promise<WriteResponse> => {
    const input = request.body ?? {}
    const result = await code.run(action, tx, by, (context) => action.run(input, context))
    return { status: 200, headers: {}, body: outputOf(action, result) }
  }
  return idempotentWrite(request, reply, served.db.write, (tx) =>
    inUnit(tx, authorBy(served, request), (by) => run(tx, by)),
  )
}

const authorBy = ({ now }: Served, request: FastifyRequest): WriteBy => ({
  caller: authorOf(request),
  now: new Date(now()).toISOString(),
})

interface Outcome {
  tx: Queryable
  access: RowAccess | undefined
  result: unknown
}

/**
 * Returns the response: the declared output or, without one, the row after the action. Throws if the access rules do
 * not permit the caller to store this row.
 */
async function respond(action: Action, served: Served, request: RowRequest, { tx, access, result }: Outcome) {
  const { id } = request.params
  const row = await served.rows.readIn(tx, id)
  if (row && access) await assertStorable(served, tx, access, row)
  if (action.output) return { status: 200, headers: {}, body: outputOf(action, result) }
  if (row === undefined) throw new CodeError(`${action.label} deleted its row: declare an output for the response`)
  return { status: 200, headers: {}, body: served.serialize(row, request) }
}

function outputOf({ label, output = Type.Object({}) }: Action, result: unknown): object {
  if (Check(output, result)) return result as object
  throw new CodeError(`${label} returned a value that does not match its output`)
}
