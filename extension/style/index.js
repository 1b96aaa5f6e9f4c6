import '../../tilebench/views/static/board.css';
import './base.css';
