import { headerParameters, headers } from './openapi-components.ts'
import { errorResponses, errorSchemas } from './openapi-errors.ts'
import { type EventType, webhookHeaders, webhooksOf } from './openapi-events.ts'
import { type Extra, type Operation, operationOf, type Route } from './openapi-operation.ts'
import { prune, shareParameters } from './openapi-reuse.ts'
import { exampleOf } from './openapi-samples.ts'
import { capital, namesOf, plain, type Schema, schemaNames } from './openapi-schemas.ts'

/** Operations written by hand, by path and method: those whose routes declare no schemas. */
export interface Written {
  schemas: Record<string, Schema>
  paths: Record<string, Record<string, Operation>>
}

export interface DocumentOptions {
  baseUrl: string
  /** The release. */
  version: string
  /** The prefixes that serve the same routes; the first is the one the document writes. */
  prefixes: readonly string[]
  /** Every scope a client can have, with what it allows. */
  scopes: Record<string, string>
  /** Names of schemas that would get a worse one from their operations. */
  schemas: Record<string, unknown>
  /** By operationId. */
  extras: Record<string, Extra>
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

Every path is served below each of the servers; one that names its own server belongs to no version.`

/** The OpenAPI 3.1 document of the live routes. */
export function documentOf(routes: readonly Route[], options: DocumentOptions): Document {
  const { baseUrl, version, events, written } = options
  const canonical = withoutTwins(routes, options.prefixes)
  const known = plain({ ...errorSchemas, ...written.schemas, ...options.schemas }) as Record<string, Schema>
  const names = schemaNames(known)
  nameReads(canonical, names)
  const operations = canonical.flatMap((route) => describe(route, canonical, names, options))
  const parameters = shareParameters(operations.map(({ operation }) => operation))
  const paths = pathsOf(operations, routes, options)
  const webhooks = webhooksOf(events, names)
  const examples = Object.entries(names.schemas).map(([name, schema]) => [name, withExample(schema, name)])
  const document: Document = {
    openapi: '3.1.0',
    info: { title: 'Plinth', version, description, license: { name: 'MIT', identifier: 'MIT' } },
    // The base first: it is the only server that has every path, and tools that know no servers of paths take the first.
    servers: options.prefixes.map((prefix) => ({ url: baseUrl + prefix })),
    tags: [...new Set(operations.flatMap(({ operation }) => operation.tags ?? []))].map((name) => ({ name })),
    paths,
    webhooks,
    components: {
      schemas: Object.fromEntries(examples),
      responses: errorResponses(baseUrl),
      parameters: { ...parameters, ...headerParameters, ...webhookHeaders },
      headers,
      securitySchemes: securitySchemes(options),
    },
  }
  return prune(document)
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
  for (const { schema } of routes) {
    const answer = schema.response?.['200']
    if (schema.operationId?.startsWith('read') && answer) names.refer(answer, namesOf(schema.operationId).answer)
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
  { extras, written }: DocumentOptions,
): Described[] {
  const { path, schema, config } = route
  const method = route.method.toLowerCase()
  const byHand = written.paths[path]?.[method]
  if (byHand) return [{ path, method, operation: byHand }]
  if (config.scope === 'own') return []
  const id = schema.operationId ?? method + path.split(/\W+/).map(capital).join('')
  const first = all.find((other) => other.schema.operationId === id) ?? route
  // The same operation of a later version is named after its prefix.
  const operationId = first === route ? id : id + capital(path.split('/')[1] as string)
  const replacement = all.find((other) => other.path === path && other.method === 'PUT')?.schema.body
  return [{ path, method, operation: operationOf(route, operationId, { names, extra: extras[id] ?? {}, replacement }) }]
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

const withExample = (schema: Schema, name: string): Schema =>
  schema.properties && !Object.hasOwn(errorSchemas, name) && !schema.examples
    ? { ...schema, examples: [exampleOf(schema, name)] }
    : schema

function securitySchemes({ baseUrl, scopes }: DocumentOptions) {
  const clientCredentials = { tokenUrl: `${baseUrl}/oauth/token`, scopes }
  return {
    oauth2: { type: 'oauth2', description: 'Access tokens of this service', flows: { clientCredentials } },
    clientBasic: { type: 'http', scheme: 'basic', description: 'The id and the secret of a client (RFC 6749 §2.3.1)' },
  }
}
