import { acceptsKeys } from '../idempotency/policy.ts'
import type { Route } from './operation-types.ts'

/** Returns whether the route writes to a single resource; such writes can be conditional (RFC 9110 §13.1). */
export const isChange = ({ method, schema }: Route): boolean =>
  schema.params !== undefined && /^(PUT|PATCH|DELETE)$/.test(method)

/** Returns the description of an operation: who may call it, and how to call it safely. */
export function describedBy(route: Route): string {
  const { config, schema } = route
  const query = schema.querystring?.properties ?? {}
  const sentences: [boolean, string][] = [
    [true, accessOf(config)],
    [query.cursor !== undefined, 'Paginated: `Link` has the next and previous page.'],
    [Boolean(config.fields), '`fields` selects members of the response.'],
    [isChange(route), 'With `If-Match`, fails with 412 if the resource has changed.'],
    [acceptsKeys(route), 'Safe to retry with an `Idempotency-Key`.'],
    [config.bodyOptional === true, 'The body is optional.'],
  ]
  return sentences.flatMap(([holds, words]) => (holds ? [words] : [])).join(' ')
}

function accessOf({ scope, orScope }: Route['config']): string {
  if (scope === 'public') return 'Public.'
  if (scope === 'any') return 'Requires a valid access token.'
  return `Requires the scope \`${scope}\`${orScope === undefined ? '' : ` or \`${orScope}\``}.`
}
