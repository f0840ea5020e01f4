import { useEffect, useRef } from 'react'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { useTheme } from './theme.ts'

export interface Series {
  label: string
  /** The name of a custom property of the style sheet, such as `--good`. */
  color: string
  /** One value per time; null for a gap. */
  values: readonly (number | null)[]
}

interface ChartProps {
  /** A description for screen readers, which should include the latest values. */
  label: string
  /** Seconds since the epoch, ascending. */
  times: readonly number[]
  series: readonly Series[]
  /** Formats the values of the axis and the legend. */
  format: (value: number) => string
  /** The allowed distances between grid lines, such as whole numbers; by default, any round number. */
  increments?: readonly number[]
  /** The height of the chart, in pixels. */
  height?: number
}

const hours = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' } as const
const minutes = new Intl.DateTimeFormat(undefined, hours)
const seconds = new Intl.DateTimeFormat(undefined, { ...hours, second: '2-digit' })

/**
 * Returns the indexes of values with a gap on both sides. They are drawn as points, because a line needs two values.
 */
function isolated(plot: uPlot, index: number): number[] {
  const values = plot.data[index] ?? []
  const isGap = (at: number) => values[at] === null || values[at] === undefined
  return Array.from(values.keys()).filter((at) => !isGap(at) && isGap(at - 1) && isGap(at + 1))
}

/** Shows the latest values in the legend unless the pointer is over a chart. */
function showLatest(plot: uPlot): void {
  const known = plot.data.slice(1).map((values) => Array.from(values ?? []).findLastIndex((value) => value !== null))
  if ((plot.cursor.left ?? -1) < 0) plot.setLegend({ idx: Math.max(0, ...known) }, false)
}

/** Returns the chart options for a width, with the colors of the current theme. */
function optionsOf({ series, format, increments, height = 160 }: Omit<ChartProps, 'label'>, width: number) {
  const style = getComputedStyle(document.documentElement)
  const color = (name: string) => style.getPropertyValue(name).trim()
  const axis = { stroke: color('--quiet'), grid: { stroke: color('--soft'), width: 1 }, ticks: { show: false } }
  const lines = series.map((one) => ({
    label: one.label,
    stroke: color(one.color),
    ...(series.length === 1 && { fill: `${color(one.color)}1f` }),
    width: 1.5,
    points: { show: false, filter: isolated },
    value: (_: uPlot, value: number | null) => (value === null ? '–' : format(value)),
  }))
  const timeOf = (format: Intl.DateTimeFormat, at: number) => format.format(at * 1_000)
  const xAxis: uPlot.Axis = {
    ...axis,
    size: 28,
    values: (_, splits, __, ___, step) => splits.map((at) => timeOf(step < 60 ? seconds : minutes, at)),
  }
  const yAxis: uPlot.Axis = {
    ...axis,
    size: 68,
    space: 26,
    values: (_, splits) => splits.map((value) => format(value)),
    ...(increments && { incrs: [...increments] }),
  }
  const options: uPlot.Options = {
    ...{ width, height },
    padding: [8, 12, 0, 0],
    legend: { live: true, markers: { fill: (_, at) => color(series[at - 1]?.color ?? '') } },
    // The pointer shows the same time on all charts of a page.
    cursor: { drag: { x: false, y: false }, sync: { key: 'charts' } },
    scales: { y: { range: (_, min, max) => [Math.min(0, min ?? 0), max > 0 ? max * 1.1 : 1] } },
    axes: [xAxis, yAxis],
    series: [{ value: (_, at: number | null) => (at === null ? '' : timeOf(minutes, at)) }, ...lines],
    hooks: { setLegend: [showLatest], setData: [showLatest], ready: [showLatest] },
  }
  return options
}

/** A line chart over time. Import it with `lazy`, so that the chart library is loaded only when a chart is shown. */
export default function Chart({ label, ...props }: ChartProps) {
  const { times, series, height = 160 } = props
  const box = useRef<HTMLDivElement>(null)
  const theme = useTheme()
  const data = [times, ...series.map(({ values }) => values)] as uPlot.AlignedData
  const latest = useRef(data)
  latest.current = data
  const chart = useRef<uPlot | null>(null)
  const shape = series.map(({ label, color }) => `${label} ${color}`).join()
  // biome-ignore lint/correctness/useExhaustiveDependencies: the chart is built again for other series or another theme, not for other data
  useEffect(() => {
    const element = box.current
    if (element === null) return
    const plot = new uPlot(optionsOf(props, element.clientWidth || 300), latest.current, element)
    chart.current = plot
    const observer = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height }))
    observer.observe(element)
    return () => {
      observer.disconnect()
      plot.destroy()
      chart.current = null
    }
  }, [shape, theme, height])
  useEffect(() => chart.current?.setData(data))
  return <div ref={box} role="img" aria-label={label} />
}
