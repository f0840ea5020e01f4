import { headerParameters, headerReferences, headers, type Response } from './openapi-components.ts'
import { errorResponses, errorSchemas } from './openapi-errors.ts'
import { type EventType, webhookHeaders, webhooksOf } from './openapi-events.ts'
import { type Everywhere, withEverywhere } from './openapi-everywhere.ts'
import { exampleOf } from './openapi-examples.ts'
import { type Operation, operationOf, type Route } from './openapi-operation.ts'
import { prune, shareParameters } from './openapi-reuse.ts'
import { capital, namesOf, partOf, plain, type Schema, schemaNames, wholeOf } from './openapi-schemas.ts'
import { type OfferedScopes, securitySchemes } from './openapi-security.ts'
import { type Selected, type Selection, selected } from './openapi-selection.ts'

/** Operations written by hand, by path and method: those whose routes declare no schemas. */
export interface Written {
  schemas: Record<string, Schema>
  responses: Record<string, Response>
  paths: Record<string, Record<string, Operation>>
}

export interface DocumentOptions extends Selection {
  /** What is documented. */
  title: string
  baseUrl: string
  /** The release. */
  version: string
  /** Whether the version it tells of is deprecated. */
  deprecated: boolean
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

Every path is served below each of the servers; one that names its own server belongs to no version. Each version of the
interface has a document of its own, such as \`/v2/openapi.json\`. HEAD is answered wherever GET is, with the same headers,
and OPTIONS with \`Allow\` on every path.

Names in \`fields\` narrow an answer to a part of it. What \`User\` describes is whole; \`UserPart\` is what \`fields\` leaves of
it, and is only sent to who asked with \`fields\`.`

/** The OpenAPI 3.1 document of the live routes. */
export function documentOf(routes: readonly Route[], options: DocumentOptions): Document {
  const { baseUrl, version, events, written } = options
  const canonical = selected(routes, options)
  const declared = plain({ ...errorSchemas, ...written.schemas, ...options.schemas }) as Record<string, Schema>
  const known = Object.fromEntries(Object.entries(declared).map(([name, schema]) => [name, wholeOf(schema)]))
  const names = schemaNames(known)
  nameReads(canonical, names)
  const operations = canonical
    .flatMap((route) => describe(route, canonical, names, options))
    .map(({ operation, ...at }) => ({ ...at, operation: withEverywhere(operation, everywhereOf(at, options)) }))
  const parameters = shareParameters(operations.map(({ operation }) => operation))
  const paths = pathsOf(operations, options)
  const webhooks = webhooksOf(events, names)
  const examples = Object.entries(names.schemas).map(([name, schema]) => [name, withExample(schema, name)])
  const document: Document = {
    openapi: '3.1.0',
    info: { title: options.title, version, description, license: { name: 'MIT', identifier: 'MIT' } },
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
function sharedResponses(options: DocumentOptions): Record<string, Response> {
  const { baseUrl, written } = options
  const common = headerReferences(everywhereOf({ isVersioned: true }, options).headers)
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
  isVersioned: boolean
  operation: Operation
}

/** What deprecated versions add to the answers of their operations. */
const told = ['Deprecation', 'Sunset', 'Link'] as const

function everywhereOf({ isVersioned }: Pick<Described, 'isVersioned'>, { everywhere, deprecated }: DocumentOptions) {
  return isVersioned && deprecated ? { ...everywhere, headers: [...everywhere.headers, ...told] } : everywhere
}

/** A route as an operation; none for one that is neither declared nor written by hand, such as a login page. */
function describe(
  route: Selected,
  all: readonly Selected[],
  names: ReturnType<typeof schemaNames>,
  { written, everywhere, deprecated }: DocumentOptions,
): Described[] {
  const { path, schema, config, isVersioned } = route
  const method = route.method.toLowerCase()
  const byHand = written.paths[path]?.[method]
  if (byHand) return [{ path, method, isVersioned, operation: byHand }]
  if (config.scope === 'own' && !schema.operationId) return []
  const id = schema.operationId ?? method + path.split(/\W+/).map(capital).join('')
  const replacement = all.find((other) => other.path === path && other.method === 'PUT')?.schema.body
  const operation = operationOf(route, id, { names, problems: everywhere.problems, replacement })
  return [{ path, method, isVersioned, operation: { ...operation, ...(isVersioned && deprecated && { deprecated }) } }]
}

/** What belongs to no version says where it is. */
function pathsOf(described: Described[], { baseUrl }: DocumentOptions) {
  const paths: Record<string, PathItem> = {}
  for (const { path, method, isVersioned, operation } of described) {
    paths[path] ??= isVersioned ? {} : { servers: [{ url: baseUrl }] }
    paths[path][method] = operation
  }
  return paths
}

function withExample(schema: Schema, name: string): Schema {
  if (!schema.properties || schema.examples || Object.hasOwn(errorSchemas, name)) return schema
  const example = exampleOf(schema)
  return example ? { ...schema, examples: [example] } : schema
}
