import type { Parameter } from './components.ts'
import type { Operation } from './operation-types.ts'
import { capital } from './schemas.ts'

/**
 * Replaces each parameter that several operations describe identically with a reference, and returns these parameters
 * by component name. If different parameters have the same component name, only the first is replaced.
 */
export function shareParameters(operations: readonly Operation[]): Record<string, Parameter> {
  const uses = Map.groupBy(
    operations.flatMap(({ parameters = [] }) => parameters),
    (parameter) => JSON.stringify(parameter),
  )
  const shared: Record<string, Parameter> = {}
  for (const operation of operations) {
    operation.parameters = operation.parameters?.map((parameter) => {
      const text = JSON.stringify(parameter)
      if ('$ref' in parameter || (uses.get(text)?.length ?? 0) < 2) return parameter
      const name = componentName(parameter.name)
      shared[name] ??= parameter
      return JSON.stringify(shared[name]) === text ? { $ref: `#/components/parameters/${name}` } : parameter
    })
  }
  return shared
}

/**
 * Returns the component name for a parameter, without brackets and dots: `status[in]` becomes `StatusIn`, and
 * `customer.name` becomes `CustomerName`.
 */
const componentName = (parameter: string) =>
  parameter
    .split(/[[\].]/)
    .map(capitalized)
    .join('')
const capitalized = (part: string) => (part === '' ? '' : capital(part))

/** Removes components that nothing references. */
export function prune<D extends { components: Record<string, Record<string, unknown>> }>(document: D): D {
  const text = JSON.stringify(document)
  const used = new Set(Array.from(text.matchAll(/"#\/components\/([^"]+)"/g), ([, path]) => path))
  // A security requirement maps the name of its scheme to a list of scopes.
  const requirements = new Set(Array.from(text.matchAll(/\{"([^"]+)":\[/g), ([, name]) => name))
  const isUsed = (kind: string, name: string) =>
    kind === 'securitySchemes' ? requirements.has(name) : used.has(`${kind}/${name}`)
  const usedComponents = Object.entries(document.components).map(([kind, entries]) => [
    kind,
    Object.fromEntries(Object.entries(entries).filter(([name]) => isUsed(kind, name))),
  ])
  const pruned = { ...document, components: Object.fromEntries(usedComponents) }
  return JSON.stringify(pruned).length < text.length ? prune(pruned) : pruned
}
