import { takesKeys } from '../idempotency/policy.ts'
import type { Route } from './operation-types.ts'

/** Whether the route is a write to a single resource, which can be conditional (RFC 9110 §13.1). */
export const isChange = ({ method, schema }: Route): boolean =>
  schema.params !== undefined && /^(PUT|PATCH|DELETE)$/.test(method)

/** The description of an operation: who may call it, and how to call it safely. */
export function describedBy(route: Route): string {
  const { config, schema } = route
  const query = schema.querystring?.properties ?? {}
  const facts: [boolean, string][] = [
    [true, accessOf(config)],
    [query.cursor !== undefined, 'Paged: `Link` leads to the neighbouring pages.'],
    [Boolean(config.fields), '`fields` narrows the response.'],
    [isChange(route), 'With `If-Match` it is refused (412) once the resource has changed.'],
    [takesKeys(route), 'Safe to repeat under an `Idempotency-Key`.'],
    [config.bodyOptional === true, 'The body may be left out.'],
  ]
  return facts.flatMap(([holds, words]) => (holds ? [words] : [])).join(' ')
}

function accessOf({ scope, orScope }: Route['config']): string {
  if (scope === 'public') return 'Open to everybody.'
  if (scope === 'any') return 'Takes any valid access token.'
  return `Takes the scope \`${scope}\`${orScope === undefined ? '' : ` or \`${orScope}\``}.`
}
