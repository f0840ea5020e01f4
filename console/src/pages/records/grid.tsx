import { useVirtualizer } from '@tanstack/react-virtual'
import { type KeyboardEvent, type MouseEvent, useEffect, useRef, useState } from 'react'
import type { Field, Row } from './model.ts'
import { isNumber, Value } from './value.tsx'

export interface GridProps {
  label: string
  columns: readonly Field[]
  rows: readonly Row[]
  /** The total number of rows; null if it is unknown. */
  total: number | null
  sort: string | undefined
  /** The fields to sort by. */
  sorts: readonly string[]
  onSort: (sort: string | undefined) => void
  selected: ReadonlySet<string | number>
  onSelect: (ids: ReadonlySet<string | number>) => void
  onOpen: (row: Row) => void
  hasMore: boolean
  /** Called when the person approaches the end of the rows. */
  onMore: () => void
  isLoading: boolean
}

const rowHeight = 40
const aheadRows = 40
const selectWidth = '2.75rem'

/**
 * A table of any number of rows: only the visible ones are elements, and further pages are read as the person scrolls.
 * Arrow keys move between cells, Enter opens a row, and Space selects it.
 */
export function Grid(props: GridProps) {
  const { columns, rows, hasMore, onMore, isLoading } = props
  const box = useRef<HTMLDivElement>(null)
  const [active, setActive] = useState({ row: 0, column: 1 })
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => rowHeight,
    overscan: 12,
  })
  const shown = virtual.getVirtualItems()
  const last = shown.at(-1)?.index ?? 0
  useEffect(() => {
    if (hasMore && !isLoading && last >= rows.length - aheadRows) onMore()
  }, [hasMore, isLoading, last, rows.length, onMore])
  const move = (row: number, column: number) => {
    const next = {
      row: Math.max(0, Math.min(rows.length - 1, row)),
      column: Math.max(0, Math.min(columns.length, column)),
    }
    setActive(next)
    virtual.scrollToIndex(next.row)
    requestAnimationFrame(() =>
      box.current?.querySelector<HTMLElement>(`[data-cell="${next.row}:${next.column}"]`)?.focus(),
    )
  }
  const page = Math.max(1, Math.floor((box.current?.clientHeight ?? 0) / rowHeight) - 2)
  const template = `${selectWidth} ${columns.map((field) => (field.name === 'id' ? '6rem' : 'minmax(9rem, 1fr)')).join(' ')}`
  const width = `calc(${selectWidth} + ${columns.length * 9}rem)`
  return (
    <div className="record-grid" ref={box} aria-busy={isLoading}>
      <table
        {...{ role: 'grid', 'aria-label': props.label, 'aria-multiselectable': true, style: { minWidth: width } }}
        {...{ 'aria-rowcount': props.total === null ? -1 : props.total + 1, 'aria-colcount': columns.length + 1 }}
        onKeyDown={(event) => keyed(event, props, active, move, page)}
      >
        <thead {...{ role: 'rowgroup' }}>
          <Header {...props} template={template} />
        </thead>
        <tbody {...{ role: 'rowgroup' }} style={{ height: virtual.getTotalSize() }}>
          {shown.map(({ index, start }) => {
            const row = rows[index]
            if (row === undefined) return null
            const cells = { row, index, template, top: start, active, onActive: setActive }
            return <GridRow key={row.id} {...cells} grid={props} />
          })}
        </tbody>
      </table>
    </div>
  )
}

type Active = { row: number; column: number }

function keyed(
  event: KeyboardEvent,
  { rows, columns, selected, onSelect, onOpen }: GridProps,
  { row, column }: Active,
  move: (row: number, column: number) => void,
  page: number,
): void {
  if (!(event.target instanceof HTMLElement) || event.target.dataset.cell === undefined) return
  const current = rows[row]
  const moves: Record<string, () => void> = {
    ArrowDown: () => move(row + 1, column),
    ArrowUp: () => move(row - 1, column),
    ArrowRight: () => move(row, column + 1),
    ArrowLeft: () => move(row, column - 1),
    PageDown: () => move(row + page, column),
    PageUp: () => move(row - page, column),
    Home: () => (event.ctrlKey ? move(0, column) : move(row, 0)),
    End: () => (event.ctrlKey ? move(rows.length - 1, column) : move(row, columns.length)),
    Enter: () => current && onOpen(current),
    ' ': () => current && onSelect(toggled(selected, current.id)),
  }
  const run = moves[event.key]
  if (run === undefined || event.altKey || event.metaKey) return
  event.preventDefault()
  run()
}

export function toggled<Id>(selected: ReadonlySet<Id>, id: Id): ReadonlySet<Id> {
  const next = new Set(selected)
  if (!next.delete(id)) next.add(id)
  return next
}

function Header({
  columns,
  rows,
  sort,
  sorts,
  onSort,
  selected,
  onSelect,
  template,
}: GridProps & { template: string }) {
  const isAll = rows.length > 0 && rows.every(({ id }) => selected.has(id))
  return (
    <tr {...{ role: 'row', 'aria-rowindex': 1 }} style={{ gridTemplateColumns: template }}>
      <th {...{ role: 'columnheader' }} scope="col">
        <input
          type="checkbox"
          aria-label="Select all loaded rows"
          checked={isAll}
          onChange={() => onSelect(isAll ? new Set() : new Set(rows.map(({ id }) => id)))}
        />
      </th>
      {columns.map((field) => {
        const { name, label } = field
        const direction = sort === name ? 'ascending' : sort === `-${name}` ? 'descending' : 'none'
        const next = { none: name, ascending: `-${name}`, descending: undefined }[direction]
        const className = isNumber(field) ? 'number' : undefined
        if (!sorts.includes(name))
          return (
            <th key={name} {...{ role: 'columnheader' }} scope="col" className={className}>
              {label}
            </th>
          )
        return (
          <th
            key={name}
            {...{ role: 'columnheader', 'aria-sort': direction as 'none' }}
            scope="col"
            className={className}
          >
            <button type="button" onClick={() => onSort(next)}>
              {label} <span aria-hidden="true">{{ none: '', ascending: '↑', descending: '↓' }[direction]}</span>
            </button>
          </th>
        )
      })}
    </tr>
  )
}

interface GridRowProps {
  row: Row
  index: number
  template: string
  top: number
  active: Active
  onActive: (active: Active) => void
  grid: GridProps
}

function GridRow({ row, index, template, top, active, onActive, grid }: GridRowProps) {
  const { columns, selected, onSelect, onOpen } = grid
  const isSelected = selected.has(row.id)
  const cell = (column: number) => ({
    role: 'gridcell',
    'data-cell': `${index}:${column}`,
    tabIndex: active.row === index && active.column === column ? 0 : -1,
    onFocus: () => onActive({ row: index, column }),
  })
  const open = (event: MouseEvent) => {
    if (!(event.target instanceof HTMLAnchorElement)) onOpen(row)
  }
  return (
    <tr
      {...{ role: 'row', 'aria-rowindex': index + 2, 'aria-selected': isSelected }}
      className={index % 2 === 1 ? 'odd' : undefined}
      style={{ gridTemplateColumns: template, transform: `translateY(${top}px)`, height: rowHeight }}
    >
      <td {...cell(0)}>
        <input
          type="checkbox"
          tabIndex={-1}
          aria-label={`Select ${row.id}`}
          checked={isSelected}
          onChange={() => onSelect(toggled(selected, row.id))}
        />
      </td>
      {columns.map((field, at) => (
        <td key={field.name} {...{ ...cell(at + 1), onClick: open }} className={isNumber(field) ? 'number' : undefined}>
          <Value field={field} row={row} />
        </td>
      ))}
    </tr>
  )
}
