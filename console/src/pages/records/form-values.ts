import type { Schema } from '../../api/document.ts'
import type { Field, Row } from './model.ts'
import { textOf } from './value.tsx'

/** The type of form control for a field. */
export type Control = 'text' | 'lines' | 'integer' | 'number' | 'boolean' | 'choice' | 'date' | 'instant' | 'json'

const longText = 300

/** Returns the choices of an enumeration; undefined for any other schema. */
export function choicesOf({ enum: values, anyOf }: Schema): unknown[] | undefined {
  if (values) return values
  const constants = anyOf?.map((one) => one.const)
  return constants?.every((one) => one !== undefined) ? constants : undefined
}

export function controlOf(schema: Schema): Control {
  if (choicesOf(schema)) return 'choice'
  const { type, format, maxLength } = schema
  const name = Array.isArray(type) ? type.find((one) => one !== 'null') : type
  if (name === 'boolean' || name === 'integer' || name === 'number') return name
  if (name !== 'string') return 'json'
  if (format === 'date') return 'date'
  if (format === 'date-time') return 'instant'
  return maxLength !== undefined && maxLength > longText ? 'lines' : 'text'
}

/** The text in each form control, by field name; empty text means no value. */
export type Draft = Readonly<Record<string, string>>

/** Returns the initial text of each form control. */
export function draftOf(fields: readonly Field[], row: Row | null): Draft {
  const initial = ({ name, schema }: Field) => {
    const value = row === null ? schema.default : row[name]
    return typeof value === 'object' && value !== null ? JSON.stringify(value, null, 2) : textOf(value)
  }
  return Object.fromEntries(fields.map((field) => [field.name, initial(field)]))
}

/** Thrown if a text is not a valid value for its field. */
export class InvalidText extends Error {}

/**
 * Converts a control's text to a value; null if the text is empty. Throws `InvalidText` for a malformed number or
 * malformed JSON; the service checks all other rules.
 */
export function valueFrom(schema: Schema, text: string): unknown {
  if (text === '') return null
  switch (controlOf(schema)) {
    case 'boolean':
      return text === 'true'
    case 'integer':
    case 'number': {
      const number = Number(text)
      if (Number.isNaN(number)) throw new InvalidText('must be a number')
      return number
    }
    case 'choice':
      return choicesOf(schema)?.find((choice) => String(choice) === text) ?? text
    case 'json':
      try {
        return JSON.parse(text) as unknown
      } catch {
        throw new InvalidText('must be JSON')
      }
    default:
      return text
  }
}

interface Body {
  body: Record<string, unknown>
  errors: Record<string, string>
}

/** Returns the body of a POST request: every field that has a value. */
export function newBody(fields: readonly Field[], draft: Draft): Body {
  const { body, errors } = changedBody(fields, draftOf(fields, { id: '' }), draft)
  return { body: Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null)), errors }
}

/** Returns the merge patch that turns one draft into another; null removes a value. */
export function changedBody(fields: readonly Field[], before: Draft, after: Draft): Body {
  const body: Record<string, unknown> = {}
  const errors: Record<string, string> = {}
  for (const { name, schema } of fields) {
    const text = after[name] ?? ''
    if (text === (before[name] ?? '')) continue
    try {
      body[name] = valueFrom(schema, text)
    } catch (error) {
      if (!(error instanceof InvalidText)) throw error
      errors[name] = error.message
    }
  }
  return { body, errors }
}
