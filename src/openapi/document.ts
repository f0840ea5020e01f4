import type { ProblemCode } from '../http/problems/problem.ts'
import { type HeaderName, headerParameters, headers, type Response } from './components.ts'
import { errorResponses, errorSchemas } from './error-responses.ts'
import { exampleOf, withExamples } from './examples.ts'
import { descriptionOf, type ServiceInfo } from './info.ts'
import { withNumberFormats } from './numbers.ts'
import { failures, isPage, operationOf } from './operation.ts'
import type { Operation, Route } from './operation-types.ts'
import { prune, shareParameters } from './reuse.ts'
import { capital, operationSchemaNames, plain, type Schema, schemaNames, wholeOf } from './schemas.ts'
import { type OfferedScopes, securitySchemes } from './security.ts'
import { type RouteSelection, type Selected, selected } from './selection.ts'
import { type EventType, webhooksOf } from './webhooks.ts'

/** Handwritten operations, by path and method, for routes without schemas. */
export interface HandwrittenOperations {
  schemas: Record<string, Schema>
  responses: Record<string, Response>
  paths: Record<string, Record<string, Operation>>
}

export interface DocumentOptions extends RouteSelection {
  /** The title of the document. */
  title: string
  /** The information about the service that its author provides. */
  info: ServiceInfo
  baseUrl: string
  /** The Plinth version. */
  version: string
  /** Whether the documented API version is deprecated. */
  deprecated: boolean
  scopes: OfferedScopes
  /** Tag descriptions, in display order. */
  tags: Record<string, string>
  everywhere: Everywhere
  /** Schemas with fixed names, because names derived from their operations would be less clear. */
  schemas: Record<string, unknown>
  written: HandwrittenOperations
  events: Record<string, EventType>
}

export interface Document {
  openapi: string
  paths: Record<string, PathItem>
  webhooks?: object
  components: Record<string, Record<string, unknown>>
  [field: string]: unknown
}

type PathItem = Record<string, Operation | { url: string }[]>

/** Builds the OpenAPI 3.1 document for the live routes. */
export function documentOf(routes: readonly Route[], options: DocumentOptions): Document {
  const { baseUrl, events, written } = options
  const canonical = selected(routes, options)
  const declared = plain({ ...errorSchemas, ...written.schemas, ...options.schemas }) as Record<string, Schema>
  const known = Object.fromEntries(Object.entries(declared).map(([name, schema]) => [name, wholeOf(schema)]))
  const names = schemaNames(known)
  nameReads(canonical, names)
  const operations = canonical
    .flatMap((route) => describe(route, canonical, names, options))
    .map(({ operation, ...at }) => ({ ...at, operation: withEverywhere(operation, options.everywhere) }))
  const parameters = shareParameters(operations.map(({ operation }) => operation))
  const paths = pathsOf(operations, options)
  const webhooks = webhooksOf(events)
  const examples = Object.entries(names.schemas).map(([name, schema]) => [name, withExample(schema, name)])
  const document: Document = {
    openapi: '3.1.0',
    info: infoOf(options),
    externalDocs: { description: 'This document as an interactive page', url: `${baseUrl}/docs` },
    // The base URL comes first: it is the only server that serves every path, and tools that ignore a path's `servers`
    // use the first entry.
    servers: options.prefixes.map((prefix) => ({ url: baseUrl + prefix })),
    tags: tagsOf([...operations.map(({ operation }) => operation), ...callsOf(webhooks)], options.tags),
    paths,
    ...(Object.keys(webhooks).length > 0 && { webhooks }),
    components: {
      schemas: Object.fromEntries(examples),
      responses: { ...errorResponses(baseUrl), ...written.responses },
      parameters: { ...parameters, ...headerParameters },
      headers,
      securitySchemes: securitySchemes(options),
    },
  }
  return prune(withNumberFormats(withExamples(document)))
}

function infoOf({ title, info, baseUrl, version, everywhere, deprecated }: DocumentOptions) {
  const { description, license } = info
  return {
    title,
    version: info.version ?? version,
    description: descriptionOf({ description, headers: everywhere.headers, deprecated }),
    ...(license && { license }),
    contact: info.contact ?? { name: info.title, url: baseUrl },
  }
}

const callsOf = (webhooks: ReturnType<typeof webhooksOf>) => Object.values(webhooks).map(({ post }) => post)

/** Returns the tags in use: first the tags with descriptions, in the order of the descriptions, then all others. */
function tagsOf(operations: readonly Pick<Operation, 'tags'>[], about: Record<string, string>) {
  const used = new Set(operations.flatMap(({ tags }) => tags ?? []))
  const order = [...new Set([...Object.keys(about), ...used])].filter((name) => used.has(name))
  return order.map((name) => ({ name, ...(about[name] && { description: about[name] }) }))
}

/**
 * Names the response schemas of single reads first, so that `User` is the response of `readUser` even if lists return
 * users in a different shape.
 */
function nameReads(routes: readonly Route[], names: ReturnType<typeof schemaNames>): void {
  for (const { schema } of routes) {
    const answer = schema.response?.['200']
    if (!schema.operationId?.startsWith('read') || !answer) continue
    names.refer(wholeOf(answer), operationSchemaNames(schema.operationId).answer)
  }
}

interface Described {
  path: string
  method: string
  isVersioned: boolean
  operation: Operation
}

/**
 * Returns a route's operation; empty for browser pages, and for routes of the authorization server that have neither an
 * operation id nor a handwritten operation.
 */
function describe(
  route: Selected,
  all: readonly Selected[],
  names: ReturnType<typeof schemaNames>,
  { written, everywhere, deprecated }: DocumentOptions,
): Described[] {
  const { path, schema, config, isVersioned } = route
  const method = route.method.toLowerCase()
  const handwritten = written.paths[path]?.[method]
  if (handwritten) return [{ path, method, isVersioned, operation: handwritten }]
  if (isPage(route) || (config.scope === 'own' && !schema.operationId)) return []
  const id = schema.operationId ?? method + path.split(/\W+/).map(capital).join('')
  const replacement = all.find((other) => other.path === path && other.method === 'PUT')?.schema.body
  const operation = operationOf(route, id, { names, problems: everywhere.problems, replacement })
  return [{ path, method, isVersioned, operation: { ...operation, ...(isVersioned && deprecated && { deprecated }) } }]
}

/** Groups operations by path. Unversioned paths specify their own server. */
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

/** The headers and errors that policies add to every operation. Extend the lists when adding a policy. */
export interface Everywhere {
  /** Headers that any response may have, described only once, in the document's description. */
  headers: readonly HeaderName[]
  /** Error codes that any request can cause. */
  problems: readonly ProblemCode[]
}

/** Adds the errors that all operations have in common; the operation's own error responses take precedence. */
export const withEverywhere = (operation: Operation, { problems }: Everywhere): Operation => ({
  ...operation,
  responses: { ...failures(problems), ...operation.responses },
})
