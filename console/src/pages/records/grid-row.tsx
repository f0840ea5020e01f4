import type { MouseEvent } from 'react'
import type { GridProps } from './grid.tsx'
import type { Row } from './model.ts'
import { Value } from './value.tsx'

export const rowHeight = 40

/** A cell of a grid. Column 0 has the check boxes. */
export interface Cell {
  row: number
  column: number
}

export function toggled<Id>(selected: ReadonlySet<Id>, id: Id): ReadonlySet<Id> {
  const next = new Set(selected)
  if (!next.delete(id)) next.add(id)
  return next
}

interface PlacedProps {
  index: number
  /** The widths of the columns, in the syntax of `grid-template-columns`. */
  template: string
  top: number
}

interface GridRowProps extends PlacedProps, Pick<GridProps, 'columns' | 'selected' | 'onSelect' | 'onOpen'> {
  row: Row
  /** The column of the cell that is in the tab order; null if that cell is in another row. */
  tabColumn: number | null
  onActive: (cell: Cell) => void
}

export function GridRow({ row, tabColumn, onActive, columns, selected, onSelect, onOpen, ...place }: GridRowProps) {
  const { index, template, top } = place
  const isSelected = selected.has(row.id)
  const cell = (column: number) => ({
    role: 'gridcell',
    'data-cell': `${index}:${column}`,
    tabIndex: tabColumn === column ? 0 : -1,
    onFocus: () => onActive({ row: index, column }),
  })
  const open = (event: MouseEvent) => {
    const isLink = event.target instanceof Element && event.target.closest('a') !== null
    if (!isLink && getSelection()?.isCollapsed !== false) onOpen(row)
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
        <td key={field.name} {...{ ...cell(at + 1), onClick: open }} className={field.isNumber ? 'number' : undefined}>
          <Value field={field} row={row} linkTabIndex={-1} />
        </td>
      ))}
    </tr>
  )
}

/** A placeholder for a row that is loading. */
export function WaitingRow({ index, template, top }: PlacedProps) {
  return (
    <tr
      {...{ role: 'row', 'aria-rowindex': index + 2, 'aria-busy': true }}
      className={index % 2 === 1 ? 'odd' : undefined}
      style={{ gridTemplateColumns: template, transform: `translateY(${top}px)`, height: rowHeight }}
    >
      <td {...{ role: 'gridcell' }} />
      <td {...{ role: 'gridcell' }} className="quiet">
        …
      </td>
    </tr>
  )
}

/** The column headers, which sort the grid, and a check box that selects all loaded rows. */
export function Header({
  columns,
  list,
  sort,
  sorts,
  onSort,
  selected,
  onSelect,
  template,
}: GridProps & { template: string }) {
  const ids = list.rows.map(({ id }) => id)
  const isAll = ids.length > 0 && ids.every((id) => selected.has(id))
  return (
    <tr {...{ role: 'row', 'aria-rowindex': 1 }} style={{ gridTemplateColumns: template }}>
      <th {...{ role: 'columnheader' }} scope="col">
        <input
          type="checkbox"
          aria-label="Select all loaded rows"
          checked={isAll}
          onChange={() => onSelect(isAll ? new Set() : new Set([...selected, ...ids]))}
        />
      </th>
      {columns.map((field) => {
        const { name, label } = field
        const direction = sort === name ? 'ascending' : sort === `-${name}` ? 'descending' : 'none'
        const next = { none: name, ascending: `-${name}`, descending: undefined }[direction]
        const common = { role: 'columnheader', scope: 'col', className: field.isNumber ? 'number' : undefined }
        if (!sorts.includes(name))
          return (
            <th key={name} {...common}>
              {label}
            </th>
          )
        return (
          <th key={name} {...{ ...common, 'aria-sort': direction as 'none' }}>
            <button type="button" onClick={() => onSort(next)}>
              {label} <span aria-hidden="true">{{ none: '', ascending: '↑', descending: '↓' }[direction]}</span>
            </button>
          </th>
        )
      })}
    </tr>
  )
}
