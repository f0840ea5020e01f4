import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { bytesText, Time } from '../../ui/format.tsx'
import type { Field, Row } from './model.ts'

/** Returns a value as one line of text; empty text for null and undefined. */
export function textOf(value: unknown): string {
  if (value === null || value === undefined) return ''
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

/** The value of a file field. */
export interface FileValue {
  type: string
  bytes: number
  sha256: string
}

interface ValueProps {
  field: Field
  row: Row
  /** The `tabIndex` of links: -1 in a grid, where only one cell is in the tab order. */
  linkTabIndex?: -1
}

/** Shows the value of a field; a reference is a link to its row. */
export function Value({ field, row, linkTabIndex }: ValueProps): ReactNode {
  const value = row[field.name]
  if (value === null || value === undefined) return <span className="quiet">–</span>
  if (field.file !== null) {
    const { type, bytes } = value as FileValue
    return `${type}, ${bytesText(bytes)}`
  }
  if (field.reference !== null)
    return (
      <Link
        to="/records/$resource/row/$id"
        params={{ resource: field.reference, id: String(value) }}
        tabIndex={linkTabIndex}
      >{`#${value}`}</Link>
    )
  if (typeof value === 'boolean') return value ? 'Yes' : 'No'
  if (field.schema.format === 'date-time' && typeof value === 'string') return <Time at={value} />
  if (field.schema.format === 'uri' && typeof value === 'string' && /^https?:/.test(value))
    return (
      <a href={value} target="_blank" rel="noreferrer" tabIndex={linkTabIndex}>
        {value}
      </a>
    )
  if (Array.isArray(value) && value.every((item) => typeof item !== 'object')) return value.join(', ')
  return textOf(value)
}
