/** A bar that shows a share of a total. The text beside it must say the same. */
export function UsageBar({ share, tone }: { share: number; tone?: 'warn' | 'wrong' | undefined }) {
  const percent = Math.min(100, Math.max(0, share * 100))
  return (
    <div className={tone ? `bar ${tone}` : 'bar'} aria-hidden="true">
      <span style={{ width: `${percent}%` }} />
    </div>
  )
}
