import type { TObject, TSchema } from 'typebox'
import { nearest } from '../../http/nearest.ts'
import { valueErrors } from '../constraints/creation.ts'
import { hasDefault } from '../constraints/defaults.ts'
import type { Collection, Declaration } from '../declaration.ts'
import { fieldNameError, reservedFields } from '../definition-rules.ts'
import { queryErrors } from '../queries/list-rules.ts'
import { referenceErrors } from '../relations/reference-rules.ts'
import { type CheckedView, viewDeclaration } from './view-declaration.ts'

const optionNames = ['rename', 'hide', 'defaults']

/** Returns the errors in a view's declaration. Each states the location and a fix. */
export function viewErrors(of: unknown, options: unknown): string[] {
  const { declaration } = (of ?? {}) as Partial<Collection>
  if (declaration === undefined || !Object.isFrozen(declaration)) return ['view: pass a collection() result first']
  const at = (errors: readonly string[]) => errors.map((error) => `view of ${declaration.path}: ${error}`)
  if (declaration.view !== undefined)
    return at(['a view is made of a collection, not of another view: name all changes'])
  const misformed = formErrors(options)
  if (misformed.length > 0) return at(misformed)
  const checked = options as CheckedView
  const errors = [...fieldErrors(declaration, checked), ...defaultErrors(declaration, checked)]
  return at(errors.length > 0 ? errors : shownErrors(viewDeclaration(declaration, checked)))
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function formErrors(options: unknown): string[] {
  if (!isObject(options)) return ["its options must be an object such as { rename: { reference: 'number' } }"]
  const { rename = {}, hide = [], defaults = {} } = options
  const unknown = Object.keys(options).filter((name) => !optionNames.includes(name))
  return [
    ...unknown.map((name) => `view() has no option ${name}: ${suggestion(name, optionNames)}`),
    ...(isObject(rename) ? [] : ["rename must be an object such as { reference: 'number' }"]),
    ...(Array.isArray(hide) ? [] : ["hide must be an array of fields such as ['currency']"]),
    ...(isObject(defaults) ? [] : ["defaults must be an object such as { currency: 'EUR' }"]),
  ]
}

/** Returns the errors in the names of `rename` and `hide`. */
function fieldErrors({ shownBody, access }: Declaration, { rename = {}, hide = [] }: CheckedView): string[] {
  const fields = Object.keys(shownBody.properties)
  const unknown = Object.entries({ rename: Object.keys(rename), hide }).flatMap(([option, names]) =>
    names
      .filter((name) => !fields.includes(name))
      .map(
        (name) => `${option} names '${String(name)}', but body has no such field: ${suggestion(String(name), fields)}`,
      ),
  )
  const shown = fields.filter((field) => !hide.includes(field))
  const nameOf = (field: string) => rename[field] ?? field
  const misnamed = Object.entries(rename).flatMap(([field, name]) => {
    const isReserved = access !== undefined && name === 'createdBy'
    const error = isReserved ? 'the field name createdBy is reserved' : fieldNameError(name)
    return error === undefined ? [] : [`rename gives ${field} a name that cannot be used: ${error}`]
  })
  const taken = shown.filter((field) => shown.some((other) => other !== field && nameOf(other) === nameOf(field)))
  const clashing = taken.filter((field) => Object.hasOwn(rename, field))
  return [
    ...unknown,
    ...misnamed,
    ...clashing.map(
      (field) =>
        `rename gives ${field} the name ${rename[field]}, which another field has: hide or rename that one, or choose another name`,
    ),
    ...hide
      .filter((field) => Object.hasOwn(rename, field))
      .map((field) => `rename and hide both name ${field}: a hidden field has no name`),
    ...(shown.length === 0 ? ['hide names every field: leave at least one'] : []),
  ]
}

function defaultErrors(
  { body, set, defaults: own, unique }: Declaration,
  { hide = [], defaults = {} }: CheckedView,
): string[] {
  const hasValue = (field: string) =>
    [set, own, defaults].some((values) => Object.hasOwn(values, field)) || hasDefault(body.properties[field] as TSchema)
  return [
    ...Object.entries(defaults).flatMap(([field, value]) => valueErrors('defaults', body, field, value, true)),
    ...Object.keys(defaults)
      .filter((field) => Object.hasOwn(set, field))
      .map((field) => `defaults cannot include ${field}: the collection sets it in every new row`),
    ...Object.entries(defaults)
      .filter(([field, value]) => unique.includes(field) && typeof value !== 'function')
      .map(([field]) => `defaults cannot include ${field}: it is unique, and several rows would have this value`),
    ...hide
      .filter((field) => body.required?.includes(field) && !hasValue(field))
      .map((field) => `hide includes ${field}, which is required: give it a value in defaults`),
  ]
}

/** Returns the errors in the names derived from the fields: those of query parameters and relations. */
function shownErrors({ shownBody, filters, ranges, references, concealed }: Declaration): string[] {
  const shown = Object.entries(shownBody.properties).filter(([field]) => !concealed.includes(field))
  const isReferenceShown = references.some(({ field }) => !concealed.includes(field))
  const visible = { ...shownBody, properties: Object.fromEntries(shown) } as TObject
  return [
    ...queryErrors({ body: shownBody, filters, ranges } as never),
    ...(isReferenceShown ? referenceErrors(visible, reservedFields) : []),
  ]
}

function suggestion(name: string, known: readonly string[]): string {
  const close = nearest(name, known)
  return close === undefined ? `use one of ${known.join(', ')}` : `did you mean ${close}?`
}
