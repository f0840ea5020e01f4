import { type HeaderName, headers } from './components.ts'

/** The service's OpenAPI info object. */
export interface ServiceInfo {
  /** The service's name. */
  title: string
  /** The API version; defaults to the Plinth version. */
  version?: string
  /** The purpose of the service, in Markdown. */
  description?: string
  /** The API's license: a name, optionally with a URL or an SPDX identifier. */
  license?: { name: string; identifier?: string; url?: string }
  /** The contact for questions; defaults to the service's URL. */
  contact?: { name?: string; url?: string; email?: string }
}

/** Returns the errors in a service's info, worded for the service's author. */
export function infoErrors(info: Partial<ServiceInfo>): string[] {
  const texts = (['title', 'version', 'description'] as const)
    .filter((name) => info[name] !== undefined && !isText(info[name]))
    .map((name) => `service: ${name} must be a non-empty string`)
  return [
    ...texts,
    ...membersOf('license', info.license, ['name', 'identifier', 'url'], ['name']),
    ...membersOf('contact', info.contact, ['name', 'url', 'email'], []),
    ...(info.license?.identifier !== undefined && info.license.url !== undefined
      ? ['service: license must not have both an identifier and a url']
      : []),
  ]
}

const isText = (value: unknown) => typeof value === 'string' && value.trim() !== ''

function membersOf(field: string, value: unknown, known: readonly string[], required: readonly string[]): string[] {
  if (value === undefined) return []
  if (typeof value !== 'object' || value === null) return [`service: ${field} must be an object`]
  const members = value as Record<string, unknown>
  const wrong = [...new Set([...required, ...Object.keys(members)])].filter((name) => !isText(members[name]))
  const unknown = Object.keys(members).filter((name) => !known.includes(name))
  return [
    ...wrong.map((name) => `service: ${field}.${name} must be a non-empty string`),
    ...unknown.map((name) => `service: ${field} has an unknown member '${name}'; expected ${known.join(', ')}`),
  ]
}

const conventions = `## Conventions

Errors are \`application/problem+json\` (RFC 9457), or a shorter \`application/json\` form when Accept names that type and
gives problem+json a lower weight or none. Both have \`errorCode\`, whose meaning never changes. If a rate limit or quota is
exceeded, the body is \`{"error": "…"}\` in either case.

Every path is served under each of the servers; a path that names its own server belongs to no version. Each API version has
a document of its own, such as \`/v2/openapi.json\`. HEAD is supported wherever GET is, with the same headers, and OPTIONS
on every path, with \`Allow\`.

\`fields\` limits a response to the listed members. The schemas describe the whole response, so a client that sends
\`fields\` must expect required members to be absent.

Any request may carry \`X-Request-Id\` (8 to 64 of \`A-Za-z0-9._-\`), which then identifies the request in responses and logs.`

export interface DescriptionOptions {
  /** The author's description, which comes first. */
  description: string | undefined
  /** Headers that any response may contain. */
  headers: readonly HeaderName[]
  /** Whether the version is deprecated, which adds headers to every response. */
  deprecated: boolean
}

/** Returns the document's description: first the author's, then the rules that apply to all operations. */
export function descriptionOf({ description, headers: common, deprecated }: DescriptionOptions): string {
  const lines = common.map((name) => `- \`${name}\`: ${headers[name].description}`)
  const ending = `Responses of this deprecated version also have \`Deprecation\`, \`Sunset\` and a \`Link\` with rel
\`successor-version\`.`
  return [
    ...(description ? [description] : []),
    conventions,
    ['Any response may have these headers in addition to those of its operation:', '', ...lines].join('\n'),
    ...(deprecated ? [ending] : []),
  ].join('\n\n')
}
