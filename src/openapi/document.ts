import type { ProblemCode } from '../http/problems/problem.ts'
import { type HeaderName, headerParameters, headers, type Response } from './components.ts'
import { errorResponses, errorSchemas } from './error-responses.ts'
import { exampleOf, withExamples } from './examples.ts'
import { descriptionOf, type ServiceInfo } from './info.ts'
import { withNumberFormats } from './numbers.ts'
import { failures, isPage, operationOf } from './operation.ts'
import type { Operation, Route } from './operation-types.ts'
import { prune, shareParameters } from './reuse.ts'
import { capital, namesOf, plain, type Schema, schemaNames, wholeOf } from './schemas.ts'
import { type OfferedScopes, securitySchemes } from './security.ts'
import { type Selected, type Selection, selected } from './selection.ts'
import { type EventType, webhooksOf } from './webhooks.ts'

/** Operations written by hand, by path and method: those whose routes declare no schemas. */
export interface Written {
  schemas: Record<string, Schema>
  responses: Record<string, Response>
  paths: Record<string, Record<string, Operation>>
}

export interface DocumentOptions extends Selection {
  /** What is documented. */
  title: string
  /** What the author says of the service. */
  info: ServiceInfo
  baseUrl: string
  /** The release of Plinth. */
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
  webhooks?: object
  components: Record<string, Record<string, unknown>>
  [field: string]: unknown
}

type PathItem = Record<string, Operation | { url: string }[]>

/** The OpenAPI 3.1 document of the live routes. */
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
    externalDocs: { description: 'This document as a page to try it out', url: `${baseUrl}/docs` },
    // The base first: it is the only server that has every path, and tools that know no servers of paths take the first.
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

/** The tags that are used, described ones first and in their order. */
function tagsOf(operations: readonly Pick<Operation, 'tags'>[], about: Record<string, string>) {
  const used = new Set(operations.flatMap(({ tags }) => tags ?? []))
  const order = [...new Set([...Object.keys(about), ...used])].filter((name) => used.has(name))
  return order.map((name) => ({ name, ...(about[name] && { description: about[name] }) }))
}

/** Reads before all others: a `User` is what reading one answers, whatever a list shows of it. */
function nameReads(routes: readonly Route[], names: ReturnType<typeof schemaNames>): void {
  for (const { schema } of routes) {
    const answer = schema.response?.['200']
    if (!schema.operationId?.startsWith('read') || !answer) continue
    names.refer(wholeOf(answer), namesOf(schema.operationId).answer)
  }
}

interface Described {
  path: string
  method: string
  isVersioned: boolean
  operation: Operation
}

/** A route as an operation; none for a page of a browser, and for one that is neither declared nor written by hand. */
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
  if (isPage(route) || (config.scope === 'own' && !schema.operationId)) return []
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

/** What the policies in front of every operation add to it: each new policy adds its own here. */
export interface Everywhere {
  /** Headers of every response: the document describes them once, in words. */
  headers: readonly HeaderName[]
  /** Codes that any request can be refused with. */
  problems: readonly ProblemCode[]
}

/** An operation with the refusals that every operation has; what it says itself comes first. */
export const withEverywhere = (operation: Operation, { problems }: Everywhere): Operation => ({
  ...operation,
  responses: { ...failures(problems), ...operation.responses },
})
