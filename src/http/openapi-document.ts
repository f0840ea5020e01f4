import { headerParameters, headerReferences, headers, type Response } from './openapi-components.ts'
import { errorResponses, errorSchemas } from './openapi-errors.ts'
import { type EventType, webhookHeaders, webhooksOf } from './openapi-events.ts'
import { type Everywhere, withEverywhere } from './openapi-everywhere.ts'
import { exampleOf } from './openapi-examples.ts'
import { type Operation, operationOf, type Route } from './openapi-operation.ts'
import { prune, shareParameters } from './openapi-reuse.ts'
import { capital, namesOf, partOf, plain, type Schema, schemaNames, wholeOf } from './openapi-schemas.ts'
import { type OfferedScopes, securitySchemes } from './openapi-security.ts'

/** Operations written by hand, by path and method: those whose routes declare no schemas. */
export interface Written {
  schemas: Record<string, Schema>
  responses: Record<string, Response>
  paths: Record<string, Record<string, Operation>>
}

export interface DocumentOptions {
  baseUrl: string
  /** The release. */
  version: string
  /** The prefixes that serve the same routes; the first is the one the document writes. */
  prefixes: readonly string[]
  scopes: OfferedScopes
  /** Tags with what is found under them, in the order they are shown. */
  tags: Record<string, string>
  everywhere: Everywhere
  /** Names of schemas that would get a worse one from their operations. */
  schemas: Record<string, unknown>
  written: Written
  events: Record<string, EventType>
}

export interface Document {
  openapi: string
  paths: Record<string, PathItem>
  webhooks: object
  components: Record<string, Record<string, unknown>>
  [field: string]: unknown
}

type PathItem = Record<string, Operation | { url: string }[]>

const description = `Errors come as \`application/problem+json\` (RFC 9457), or in a shorter \`application/json\` form when Accept names
that type and gives problem+json a lower weight or none. Both carry \`errorCode\`, which never changes its meaning.

Every path is served below each of the servers; one that names its own server belongs to no version. HEAD is answered
wherever GET is, with the same headers, and OPTIONS with \`Allow\` on every path.

Names in \`fields\` narrow an answer to a part of it. What \`User\` describes is whole; \`UserPart\` is what \`fields\` leaves of
it, and is only sent to who asked with \`fields\`.`

/** The OpenAPI 3.1 document of the live routes. */
export function documentOf(routes: readonly Route[], options: DocumentOptions): Document {
  const { baseUrl, version, events, written } = options
  const canonical = withoutTwins(routes, options.prefixes)
  const declared = plain({ ...errorSchemas, ...written.schemas, ...options.schemas }) as Record<string, Schema>
  const known = Object.fromEntries(Object.entries(declared).map(([name, schema]) => [name, wholeOf(schema)]))
  const names = schemaNames(known)
  nameReads(canonical, names)
  const operations = canonical
    .flatMap((route) => describe(route, canonical, names, options))
    .map(({ operation, ...at }) => ({ ...at, operation: withEverywhere(operation, options.everywhere) }))
  const parameters = shareParameters(operations.map(({ operation }) => operation))
  const paths = pathsOf(operations, routes, options)
  const webhooks = webhooksOf(events, names)
  const examples = Object.entries(names.schemas).map(([name, schema]) => [name, withExample(schema, name)])
  const document: Document = {
    openapi: '3.1.0',
    info: { title: 'Plinth', version, description, license: { name: 'MIT', identifier: 'MIT' } },
    externalDocs: { description: 'This document as a page to try it out', url: `${baseUrl}/docs` },
    // The base first: it is the only server that has every path, and tools that know no servers of paths take the first.
    servers: options.prefixes.map((prefix) => ({ url: baseUrl + prefix })),
    tags: tagsOf(operations, options.tags),
    paths,
    webhooks,
    components: {
      schemas: Object.fromEntries(examples),
      responses: sharedResponses(options),
      parameters: { ...parameters, ...headerParameters, ...webhookHeaders },
      headers,
      securitySchemes: securitySchemes(options),
    },
  }
  return prune(document)
}

/** The answers that operations refer to, with the headers that every answer has. */
function sharedResponses({ baseUrl, written, everywhere }: DocumentOptions): Record<string, Response> {
  const common = headerReferences(everywhere.headers)
  const shared = Object.entries({ ...errorResponses(baseUrl), ...written.responses })
  return Object.fromEntries(
    shared.map(([name, answer]) => [name, { ...answer, headers: { ...common, ...answer.headers } }]),
  )
}

/** The tags that are used, described ones first and in their order. */
function tagsOf(described: readonly Described[], about: Record<string, string>) {
  const used = new Set(described.flatMap(({ operation }) => operation.tags ?? []))
  const order = [...new Set([...Object.keys(about), ...used])].filter((name) => used.has(name))
  return order.map((name) => ({ name, ...(about[name] && { description: about[name] }) }))
}

/** `/v1/books` is `/books` once more: only the first of the prefixes is documented. */
function withoutTwins(routes: readonly Route[], [first = '', ...others]: readonly string[]): Route[] {
  const live = new Set(routes.map(({ method, path }) => `${method} ${path}`))
  const isTwin = ({ method, path }: Route) =>
    others.some((prefix) => path.startsWith(`${prefix}/`) && live.has(`${method} ${first}${path.slice(prefix.length)}`))
  return routes.filter((route) => !isTwin(route))
}

/** Reads before all others: a `User` is what reading one answers, whatever a list shows of it. */
function nameReads(routes: readonly Route[], names: ReturnType<typeof schemaNames>): void {
  for (const { schema, config } of routes) {
    const answer = schema.response?.['200']
    if (!schema.operationId?.startsWith('read') || !answer) continue
    const { answer: called } = namesOf(schema.operationId)
    names.refer(wholeOf(answer), called)
    const parts = called.map((name) => `${name}Part`)
    if (config.fields) names.refer(partOf(answer), parts)
  }
}

interface Described {
  path: string
  method: string
  operation: Operation
}

/** A route as an operation; none for one that is neither declared nor written by hand, such as a login page. */
function describe(
  route: Route,
  all: readonly Route[],
  names: ReturnType<typeof schemaNames>,
  { written, everywhere }: DocumentOptions,
): Described[] {
  const { path, schema, config } = route
  const method = route.method.toLowerCase()
  const byHand = written.paths[path]?.[method]
  if (byHand) return [{ path, method, operation: byHand }]
  if (config.scope === 'own' && !schema.operationId) return []
  const id = schema.operationId ?? method + path.split(/\W+/).map(capital).join('')
  const first = all.find((other) => other.schema.operationId === id) ?? route
  // The same operation of a later version is named after its prefix.
  const operationId = first === route ? id : id + capital(path.split('/')[1] as string)
  const replacement = all.find((other) => other.path === path && other.method === 'PUT')?.schema.body
  return [
    { path, method, operation: operationOf(route, operationId, { names, problems: everywhere.problems, replacement }) },
  ]
}

/** What is not live under every prefix says where it is. */
function pathsOf(described: Described[], routes: readonly Route[], { prefixes, baseUrl }: DocumentOptions) {
  const live = new Set(routes.map(({ path }) => path))
  const paths: Record<string, PathItem> = {}
  for (const { path, method, operation } of described) {
    const everywhere = prefixes.every((prefix) => live.has(prefix + path))
    paths[path] ??= everywhere ? {} : { servers: [{ url: baseUrl }] }
    paths[path][method] = operation
  }
  return paths
}

function withExample(schema: Schema, name: string): Schema {
  if (!schema.properties || schema.examples || Object.hasOwn(errorSchemas, name)) return schema
  const example = exampleOf(schema)
  return example ? { ...schema, examples: [example] } : schema
}
