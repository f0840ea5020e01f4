// The relations and fields that a service's totals sum or count, and the errors in them.

import type { TSchema } from 'typebox'
import { decimalFormOf } from '../../http/decimal.ts'
import { nearest } from '../../http/nearest.ts'
import { hasDefault } from '../constraints/defaults.ts'
import type { Declaration, Relation } from '../declaration.ts'
import { relationsToMany } from '../relations/relations.ts'
import type { DeclaredTotal } from './options.ts'

/** A resource whose rows store totals over the rows of another resource. */
export interface TotalsTarget {
  declaration: Declaration
  /** The field of the summed or counted rows that refers to the row with the totals. */
  reference: string
  totals: readonly DeclaredTotal[]
}

/** Returns the relation to the rows that a total sums or counts; undefined if there is none. */
const relationOf = (declaration: Declaration, { relation }: DeclaredTotal, all: readonly Declaration[]) =>
  relationsToMany(declaration, all).find(({ name }) => name === relation)

/** Returns the resources with totals over the rows of `child`, in the order of `all`. */
export function totalsOver(child: Declaration, all: readonly Declaration[]): TotalsTarget[] {
  return all.flatMap((declaration) => {
    const known = declaration.computed.totals.map((total) => ({ total, relation: relationOf(declaration, total, all) }))
    const own = known.filter(({ relation }) => relation?.declaration === child)
    const [first] = own
    if (first?.relation === undefined) return []
    return [{ declaration, reference: first.relation.field, totals: own.map(({ total }) => total) }]
  })
}

/**
 * Returns where a total gets its values: the child table, its reference to the row with the total, and the summed
 * field. Returns undefined if the total's relation does not exist.
 */
export function sourceOf(declaration: Declaration, total: DeclaredTotal, all: readonly Declaration[]) {
  const relation = relationOf(declaration, total, all)
  return relation && { table: relation.declaration.table, reference: relation.field, field: total.field }
}

/** Returns the largest absolute value that a total's column may store. */
export function maxTotal(schema: TSchema): bigint {
  const form = decimalFormOf(schema)
  return form ? 10n ** BigInt(form.precision) - 1n : BigInt(Number.MAX_SAFE_INTEGER)
}

/** Returns the errors in the sums and counts in a service. */
export const totalErrors = (all: readonly Declaration[]): string[] =>
  all.flatMap((declaration) =>
    declaration.computed.totals.flatMap((total) => {
      const place = `${declaration.path}: computed.${total.name}`
      const relation = relationOf(declaration, total, all)
      if (relation === undefined) return [`${place} names '${total.relation}', ${noRelation(declaration, total, all)}`]
      return total.field === null
        ? []
        : summedErrors(relation, total.field, total.schema).map((why) => `${place} ${why}`)
    }),
  )

function noRelation(declaration: Declaration, { relation }: DeclaredTotal, all: readonly Declaration[]): string {
  const names = relationsToMany(declaration, all).map(({ name }) => name)
  if (names.length === 0) return 'but no resource refers to this one by a single field'
  const suggestion = nearest(relation, names)
  return `which is no relation to many rows: ${suggestion ? `did you mean ${suggestion}?` : `use ${names.join(', ')}`}`
}

function summedErrors({ declaration: child, name: relation }: Relation, field: string, as: TSchema): string[] {
  const { body, kinds, concealed, computed } = child
  const summed = `${relation}.${field}`
  if (computed.totals.some(({ name }) => name === field)) {
    return [`cannot sum ${summed}, which is computed itself: sum a field that is stored`]
  }
  const schema = body.properties[field] as TSchema | undefined
  if (!Object.hasOwn(kinds, field) || schema === undefined) {
    const suggestion = nearest(field, Object.keys(kinds))
    return [`names ${summed}, but ${child.path} has no such field${suggestion ? `: did you mean ${suggestion}?` : ''}`]
  }
  if (concealed.includes(field)) return [`cannot sum ${summed}: not every caller may see it`]
  const kind = kinds[field]
  if (kind === 'number') {
    return [`cannot sum ${summed}: the sum of floating-point numbers depends on their order; declare it as Decimal`]
  }
  if (kind !== 'decimal' && kind !== 'integer') return [`cannot sum ${summed}: it is no Decimal, Money or integer`]
  return [...formErrors(summed, schema, as), ...boundErrors(as)]
}

function formErrors(summed: string, schema: TSchema, as: TSchema): string[] {
  const [from, to] = [decimalFormOf(schema), decimalFormOf(as)]
  if (from?.scale === to?.scale && (to?.currency === undefined || to.currency === from?.currency)) return []
  if (from === undefined) return [`must be declared as Type.Integer(), because ${summed} is an integer`]
  const { scale, currency } = from
  return [
    `must have the scale${currency ? ' and the currency' : ''} of ${summed}: as ${currency ? `Money('${currency}')` : `Decimal(…, ${scale})`}`,
  ]
}

const boundErrors = (as: TSchema): string[] =>
  'minimum' in as || 'maximum' in as || hasDefault(as) || decimalFormOf(as)?.minimum || decimalFormOf(as)?.maximum
    ? ['cannot have a minimum, a maximum or a default: they belong to the fields that are summed']
    : []
