import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { callerOf } from '../../http/policies/authenticate.ts'
import type { OperationLink } from '../../openapi/components.ts'
import { capital } from '../../openapi/schemas.ts'
import { idOrNone } from '../../storage/ids.ts'
import type { Row } from '../../storage/rows/rows.ts'
import type { Declaration, Relation, Served } from '../declaration.ts'
import { idParams } from '../id-types.ts'
import { lister } from '../list.ts'
import { listQuerySchema, listRulesOf } from '../list-parameters.ts'
import { listItemSerializer } from '../representation.ts'
import { listOrStream } from '../streams/routes.ts'
import { notFound, type RowRequest, readableRow } from '../writes/change.ts'
import { requireReadable } from './readable.ts'

/**
 * Returns the route of a nested list, such as `GET /customers/{id}/invoices`: the invoices that refer to one customer.
 * It has the parameters, scope and items of `list`, the route of all invoices. It responds with 404 if the customer
 * does not exist or the caller cannot read it.
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
  const serialize = listItemSerializer(child)
  const { handler: send } = lister(child, rules, serialize, { within, expand: child.expand })
  const check = async (request: FastifyRequest) => {
    requireReadable(parent.declaration, request)
    await readableRow(parent, (request as RowRequest).params.id, await parent.accessOf?.(callerOf(request)))
  }
  const page = (request: FastifyRequest, reply: FastifyReply) => {
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
  const handler = listOrStream(child, { rules, serialize, within, check }, page)
  const about = {
    operationId: operationIdOf(declaration, parent.declaration),
    summary: `List the ${declaration.name.replaceAll('-', ' ')} of one ${noun}`,
    params: idParams(parent.declaration.ids),
    querystring: listQuerySchema(rules),
  }
  const problems = parent.declaration.readScope === null ? [] : ['AUTH_REQUIRED', 'ACCESS_DENIED']
  const config = { ...list.config, cached: undefined, problems: [...(list.config?.problems ?? []), ...problems] }
  return { ...list, url, config, handler, schema: { ...list.schema, ...about } } as RouteOptions
}

const operationIdOf = ({ name }: Declaration, { noun }: Declaration) =>
  `list${name.split('-').map(capital).join('')}Of${capital(noun)}`

/**
 * Returns the route option `links`: the operations that read the related rows of a row, by the names of the relations.
 */
export function linksOf({ relations, declaration: own }: Served): { links?: Record<string, OperationLink> } {
  const links = relations.flatMap(({ name, declaration, field, isMany }): [string, OperationLink][] => {
    const { operations, noun } = declaration
    if (!operations.includes(isMany ? 'list' : 'read')) return []
    const operationId = isMany ? operationIdOf(declaration, own) : `read${capital(noun)}`
    return [[name, { operationId, parameters: { id: `$response.body#/${isMany ? 'id' : field}` } }]]
  })
  return links.length > 0 ? { links: Object.fromEntries(links) } : {}
}
