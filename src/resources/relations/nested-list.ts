import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { callerOf } from '../../http/policies/authenticate.ts'
import { idOrNone } from '../../storage/ids.ts'
import type { Row } from '../../storage/rows/rows.ts'
import type { Relation, Served } from '../declaration.ts'
import { idParams } from '../id-types.ts'
import { lister } from '../list.ts'
import { listQuerySchema, listRulesOf } from '../list-parameters.ts'
import { capital } from '../queries/bounds.ts'
import { listItemSerializer } from '../representation.ts'
import { notFound, type RowRequest, readableRow } from '../writes/change.ts'
import { requireReadable } from './readable.ts'

/**
 * Returns `GET /customers/{id}/invoices`: the list of a collection, restricted to the rows that refer to one row. The
 * parameters, scope and items are those of `list`, the route of the whole list. Responds with 404 if the row does not
 * exist or the caller cannot read it.
 */
export function nestedList(parent: Served, child: Served, { field }: Relation, list: RouteOptions): RouteOptions {
  const { declaration } = child
  const { path, noun } = parent.declaration
  const url = `${path}/:id/${declaration.name}`
  const rules = listRulesOf(child, '')
  const within = (request: FastifyRequest) => {
    const { id } = (request as RowRequest).params
    const filters = [{ field, op: '=' as const, value: idOrNone(id) }]
    return { filters, path: `${parent.prefix}${path}/${id}/${declaration.name}` }
  }
  const send = lister(child, rules, listItemSerializer(child), { within, expand: child.expand })
  const handler = (request: FastifyRequest, reply: FastifyReply) => {
    requireReadable(parent.declaration, request)
    const { id } = (request as RowRequest).params
    const respond = (row: Row | undefined) => {
      if (row === undefined) throw notFound(parent, id)
      return send(request, reply)
    }
    const access = parent.accessOf?.(callerOf(request))
    if (access) return access.then((rules) => readableRow(parent, id, rules)).then(respond)
    const found = parent.rows.find(id)
    return found instanceof Promise ? found.then(respond) : respond(found)
  }
  const about = {
    operationId: `list${declaration.name.split('-').map(capital).join('')}Of${capital(noun)}`,
    summary: `List the ${declaration.name.replaceAll('-', ' ')} of one ${noun}`,
    params: idParams(parent.declaration.ids),
    querystring: listQuerySchema(rules),
  }
  const problems = parent.declaration.readScope === null ? [] : ['AUTH_REQUIRED', 'ACCESS_DENIED']
  const config = { ...list.config, problems: [...(list.config?.problems ?? []), ...problems] }
  return { ...list, url, config, handler, schema: { ...list.schema, ...about } } as RouteOptions
}
