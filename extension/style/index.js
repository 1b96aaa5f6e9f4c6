import '../../tilebench/views/static/board.css';
import '../../tilebench/views/static/step.css';
import './base.css';
